"""Write a session's tables and report rows into a folder, for other tools and for papers."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import secrets
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, NamedTuple, get_args

import msgspec

from sessions.disk.files import failure
from sessions.disk.journal import read
from sessions.errors import RefeedError
from sessions.events import Notice
from sessions.exchange import parquet
from sessions.exchange.bundle import SUFFIX, pack
from sessions.exchange.published import thaw
from sessions.exchange.tables import Table, tables
from sessions.report import html, markdown
from sessions.report.audit import Session, audit, limits
from sessions.report.latex import latex, row, section
from sessions.report.limits import TELLING
from sessions.text import json_printable
from stats.words import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sessions.report.audit import Audit
    from sessions.state.campaign import CampaignState
    from sessions.store import SessionFolder

    Fill = Callable[[BinaryIO], object]

Format = Literal["csv", "jsonl", "parquet", "thaw", "md", "latex", "html", "bundle"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)


class Exported(NamedTuple):
    """What an export came to.

    Attributes:
        files: in the order of the formats.
        notes: everything that limits the session's numbers; tables of bare data cannot say it themselves.
    """

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def export(folder: SessionFolder, formats: Sequence[str], out: Path, *, anonymous: bool = False) -> Exported:
    """Write a session in some formats.

    Args:
        folder: the session.
        formats: of `FORMATS`.
        out: folder for the files; made if absent. Files of the same name are replaced.
        anonymous: leave out what tokens and problems say, the names of the session and of an imported file, the folders
            of model and task, and what notices and errors say; host names are in no file.

    Raises:
        RefeedError: kind "usage" for a format that is not known or not installed, and for an anonymous bundle; kind
            "integrity" for a journal that does not hold; kind "failed" when a file cannot be written, which leaves no
            part of it.
    """
    for name in formats:
        if name not in FORMATS:
            raise RefeedError("usage", f"no export format {name!r}", f"there are {', '.join(FORMATS)}")
    if "parquet" in formats:
        parquet.check_available()
    if anonymous and "bundle" in formats:
        raise RefeedError("usage", "a bundle cannot be anonymous", "its journal's chain covers host names and texts")
    session = Session.load(folder)
    if anonymous:
        _anonymise(session.state)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failure("make", out, error) from error
    made = cache(partial(audit, [session]))  # once for all report files, and only if there is one
    written: list[Path] = []
    for name in dict.fromkeys(formats):
        if name == "bundle":
            written.append(pack(folder, out / f"{folder.id}{SUFFIX}"))
        else:
            files = _files(session, made, name, out, anonymous=anonymous)
            written.extend(_write(path, fill) for path, fill in files)
    return Exported(tuple(dict.fromkeys(written)), tuple(limits([session], session.state.table())))


def _anonymise(state: CampaignState) -> None:
    """Take out where files lie and what an imported one is called (both can name people), notices and errors."""
    spec = state.spec
    model = spec.model if spec.model is None or not Path(spec.model).is_absolute() else Path(spec.model).name
    task = spec.task
    if task is not None and ":" in task:
        kind, path = task.split(":", 1)
        task = f"{kind}:{Path(path).name}"
    state.spec = msgspec.structs.replace(spec, model=model, task=task)
    telling = sum(notice.kind in TELLING for notice in state.notices)
    state.notices.clear()
    if telling > 0:  # what they say may name people; that there were some limits the numbers all the same
        state.notices.append(
            Notice(kind="warning", text=f"{count(telling, 'notice')} left out of this anonymous export")
        )
    if state.imported:
        state.source = "a file"
    if state.ended is not None and state.ended.state == "failed":
        state.ended = msgspec.structs.replace(state.ended, reason="the reason is left out")


def _files(
    session: Session, made: Callable[[], Audit], name: str, out: Path, *, anonymous: bool
) -> Iterator[tuple[Path, Fill]]:
    """Paths of a format and what fills each."""
    folder, state = session.folder, session.state
    stem = folder.id
    if name in _TABLES:
        filled = tables(state, anonymous=anonymous)
        for table in filled:
            yield out / f"{stem}-{table.name}.{name}", partial(_TABLES[name], table)
        yield out / f"{stem}-columns.md", partial(_columns, filled)
    elif name == "thaw":
        events = read(folder.journal_path, folder.registration().digest)
        yield (
            out / f"{stem}.json",
            lambda file: file.writelines(json_printable(part) for part in thaw(state, events, anonymous=anonymous)),
        )
    else:
        yield out / f"{stem}{_ENDINGS[name]}", partial(_report, made(), name, anonymous)


_ENDINGS: Final = {"md": ".md", "latex": "-table1.tex", "html": ".html"}


def _report(made: Audit, name: str, anonymous: bool, file: BinaryIO) -> None:
    """A report, with what limits its numbers; the Markdown has the paper's row too, to be copied from there."""
    folder = made.sessions[0].folder
    written = made.document(folder.id if anonymous else "")
    found = row(made.report, folder.id if anonymous else folder.name or folder.id)
    match name:
        case "html":
            parts = html.page(written)
        case "md":
            parts = markdown.page(written._replace(sections=(section(found), *written.sections)))
        case _:
            parts = latex(found, made.report, written, made.looked)
    file.writelines(part.encode() for part in parts)


def _csv(table: Table, file: BinaryIO) -> None:
    """RFC 4180 with line feeds; what is not known is empty."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    writer.writerows(table.rows)
    text.detach()  # flushes, and leaves the file open


def _jsonl(table: Table, file: BinaryIO) -> None:
    """One object a line; what is not known is null."""
    names = [column.name for column in table.columns]
    encode = msgspec.json.Encoder().encode
    file.writelines(json_printable(encode(dict(zip(names, values, strict=True)))) + b"\n" for values in table.rows)


_TABLES: Final[dict[str, Callable[[Table, BinaryIO], None]]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": parquet.write,
}


def _columns(made: Sequence[Table], file: BinaryIO) -> None:
    for table in made:
        file.write(f"## {table.name}\n\n| column | unit | meaning |\n| --- | --- | --- |\n".encode())
        file.writelines(f"| {column.name} | {column.unit} | {column.meaning} |\n".encode() for column in table.columns)
        file.write(b"\n")


def _write(path: Path, fill: Fill) -> Path:
    """Stream a file into place, so that a reader never sees a part; permissions follow the umask."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(fd, "wb") as file:
            fill(file)
        temporary.replace(path)
    except OSError as error:
        raise failure("write", path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return path
