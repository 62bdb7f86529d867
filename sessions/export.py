"""Write a session's tables and report rows into a folder, for other tools and for papers."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import secrets
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from sessions.bundle import SUFFIX, pack
from sessions.errors import RefeedError
from sessions.files import failure
from sessions.journal import read
from sessions.state import fold_all
from sessions.table_one import latex, markdown, row
from sessions.tables import Table, tables
from sessions.thaw import thaw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from sessions.campaign import CampaignState
    from sessions.store import SessionFolder

Format = Literal["csv", "jsonl", "thaw", "md", "latex", "bundle"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
_LINES: Final = 2048


def export(folder: SessionFolder, formats: Sequence[str], out: Path, *, anonymous: bool = False) -> tuple[Path, ...]:
    """Write a session in some formats.

    Args:
        folder: the session.
        formats: of `FORMATS`.
        out: folder for the files; made if absent. Files of the same name are replaced.
        anonymous: leave out what tokens and problems say, and the session's name; host names are in no table.

    Returns:
        the files, in the order of `formats`.

    Raises:
        RefeedError: kind "usage" for a format that is not known, and for an anonymous bundle; kind "integrity" for a
            journal that does not hold; kind "failed" when a file cannot be written, which leaves no part of it.
    """
    for name in formats:
        if name not in FORMATS:
            raise RefeedError("usage", f"no export format {name!r}", f"there are {', '.join(FORMATS)}")
    if anonymous and "bundle" in formats:
        raise RefeedError("usage", "a bundle cannot be anonymous", "its journal's chain covers host names and texts")
    digest = folder.registration().digest
    state = fold_all(folder.spec(), read(folder.journal_path, digest))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failure("make", out, error) from error
    written: list[Path] = []
    for name in dict.fromkeys(formats):
        if name == "bundle":
            written.append(pack(folder, out / f"{folder.id}{SUFFIX}"))
            continue
        written.extend(_write(path, pieces) for path, pieces in _files(folder, state, name, out, anonymous=anonymous))
    return tuple(written)


def _files(
    folder: SessionFolder, state: CampaignState, name: str, out: Path, *, anonymous: bool
) -> Iterator[tuple[Path, Iterable[bytes]]]:
    """Paths of a format and what goes into each."""
    stem = folder.id
    if name in {"csv", "jsonl"}:
        encode: Callable[[Table], Iterator[bytes]] = _csv if name == "csv" else _jsonl
        made = tables(state, anonymous=anonymous)
        for table in made:
            yield out / f"{stem}-{table.name}.{name}", encode(table)
        yield out / f"{stem}-columns.md", _columns(made)
    elif name == "thaw":
        events = read(folder.journal_path, folder.registration().digest)
        yield out / f"{stem}.json", thaw(state, events, anonymous=anonymous)
    else:
        label = stem if anonymous else folder.name or stem
        text = (markdown if name == "md" else latex)(row(state, label))
        yield out / f"{stem}-table1.{'md' if name == 'md' else 'tex'}", [text.encode()]


def _csv(table: Table) -> Iterator[bytes]:
    """RFC 4180 with line feeds; what is not known is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    for number, values in enumerate(table.rows):
        writer.writerow(values)
        if number % _LINES == 0:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()


def _jsonl(table: Table) -> Iterator[bytes]:
    """One object a line; what is not known is null."""
    names = [column.name for column in table.columns]
    encode = msgspec.json.Encoder().encode
    for values in table.rows:
        yield encode(dict(zip(names, values, strict=True))) + b"\n"


def _columns(made: Sequence[Table]) -> Iterator[bytes]:
    for table in made:
        yield f"## {table.name}\n\n| column | unit | meaning |\n| --- | --- | --- |\n".encode()
        for column in table.columns:
            yield f"| {column.name} | {column.unit} | {column.meaning} |\n".encode()
        yield b"\n"


def _write(path: Path, pieces: Iterable[bytes]) -> Path:
    """Stream a file into place, so that a reader never sees a part; permissions follow the umask."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(fd, "wb") as file:
            file.writelines(pieces)
        temporary.replace(path)
    except OSError as error:
        raise failure("write", path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return path
