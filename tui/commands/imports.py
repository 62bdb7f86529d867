"""`refeed-tui import`: published per-pivot files and bundles become sessions."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessions.errors import RefeedError
from sessions.store import Store
from sessions.text import one_line
from stats.words import count
from tui.commands.base import Command, json_option
from tui.console import say, say_json, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.store import SessionFolder


@click.command(
    name="import",
    cls=Command,
    examples=(
        "refeed-tui import primary.json screened.json",
        "refeed-tui import data/published/*.json",
        "refeed-tui import run.json --set block_size=32 --set batch_invariant=true",
    ),
)
@click.argument("file", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--name", help="Name of the session, for one file only; a .json file's stem by itself.")
@click.option("--set", "settings", multiple=True, metavar="FIELD=VALUE", help="A setting that the file does not name.")
@json_option
def import_command(file: tuple[Path, ...], name: str | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Turn published per-pivot JSON, or bundles that `export` wrote, into sessions like any other.

    Fractions become counts again; a fraction that is no count is an error that names the record. What a file does not
    say stays absent, and the file's hash is recorded.
    """
    from sessions.exchange.imports import import_file  # noqa: PLC0415 - `--help` need not load it

    if name is not None and len(file) > 1:
        raise click.UsageError(f"--name names one session, but {len(file)} files were given")
    overrides = parse_settings(settings)
    store = Store()
    if name is not None:
        store.check_free(name)
    made = []
    for path in file:
        stem, refused = (None, "") if name is not None else _stem(path, store)
        folder = import_file(path, store, name or stem, overrides)
        made.append((folder, path))
        said = f"session {folder.id} has no name: {refused}; `--name` gives one" if refused else _shared(folder, store)
        if said:
            warn(f"refeed-tui: {one_line(said)}")
        if not as_json:
            called = f" as {folder.name}" if folder.name is not None else ""
            pivots = count(folder.summary().evidence.pivots, "pivot")
            say(f"{folder.id}{called}  {pivots} from {one_line(str(path))}")
    if as_json:
        say_json({"sessions": [_entry(folder, path) for folder, path in made]})


def _stem(path: Path, store: Store) -> tuple[str | None, str]:
    """The name that a published file's session gets by itself: its stem; else why that is taken or cannot be a name."""
    if path.suffix != ".json":
        return None, ""
    try:
        store.check_free(path.stem)
    except RefeedError as error:
        return None, error.message
    return path.stem, ""


def _shared(folder: SessionFolder, store: Store) -> str:
    """What a bundle's name finds where another session has it, too; empty otherwise."""
    if folder.name is None:
        return ""
    try:
        store.find(folder.name)
    except RefeedError as error:
        return f"{error.message}; {error.hint}"
    return ""


def _entry(folder: SessionFolder, path: Path) -> dict[str, object]:
    return {"id": folder.id, "name": folder.name, "source": str(path), "pivots": folder.summary().evidence.pivots}


def parse_settings(settings: Sequence[str]) -> dict[str, object]:
    """Fields from "FIELD=VALUE" texts; a value is TOML, and a bare word is text.

    Raises:
        RefeedError: kind "usage" for a text without a field.
    """
    fields: dict[str, object] = {}
    for text in settings:
        field, equals, value = text.partition("=")
        if not equals or not field.strip().isidentifier():
            raise RefeedError("usage", f"--set {text!r} is not FIELD=VALUE", "for example --set block_size=32")
        try:
            fields[field.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            fields[field.strip()] = value
    return fields
