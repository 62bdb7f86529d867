"""`refeed-tui export`: tables and report rows for other tools and for papers."""

from __future__ import annotations

from pathlib import Path

import click

from sessions.text import one_line
from tui.commands.base import Command, json_option, session_argument
from tui.console import say, say_json, warn


@click.command(
    name="export",
    cls=Command,
    examples=(
        "refeed-tui export night --format csv",
        "refeed-tui export night --format csv,jsonl,thaw,md,latex --out tables",
        "refeed-tui export night --format csv --anonymous",
    ),
)
@session_argument
@click.option(
    "--format", "formats", required=True, metavar="NAME,...", help="csv, jsonl, parquet, thaw, md, latex, html, bundle."
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder [default: the session's id].")
@click.option("--anonymous", is_flag=True, help="Leave out texts and the session's name.")
@json_option
def export_command(session: str, formats: str, out: Path | None, anonymous: bool, as_json: bool) -> None:
    """Write a session's tables (a row a pivot, a problem, a pass), its report or its Table 1 row into a folder.

    Several formats are separated by commas; files of the same name are replaced. What limits the session's numbers is
    said on stderr as well, for tables hold data alone.
    """
    from sessions.exchange.export import export  # noqa: PLC0415 - numpy comes with it
    from sessions.store import Store  # noqa: PLC0415 - `--help` need not load it

    folder = Store().find(session)
    wanted = [name.strip() for name in formats.split(",") if name.strip()]
    if not wanted:
        raise click.BadParameter(f"{formats!r} names no format", param_hint="--format")
    written = export(folder, wanted, Path(folder.id) if out is None else out, anonymous=anonymous)
    if as_json:
        files = [str(path) for path in written.files]
        say_json({"session": folder.id, "files": files, "notes": list(written.notes)})
        return
    for path in written.files:
        say(one_line(str(path)))
    for note in written.notes:
        warn(f"note: {one_line(note)}")
