"""Rows out of regular files of bounded size: JSON lines and JSON arrays, either of them in gzip, and Parquet."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import stat
import zlib
from typing import TYPE_CHECKING, Any, Final

from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_BYTES: Final = 1 << 29
"""Of a file, unpacked. GSM8K's test set has 750 kB; a file of half a gigabyte is something else."""
MOST_ROWS: Final = 1_000_000
_GZIP: Final = b"\x1f\x8b"
_PARQUET: Final = b"PAR1"
_BOM: Final = b"\xef\xbb\xbf"
_WANTED: Final = "give a file with one JSON object a line, a JSON array of objects, or Parquet"

Row = tuple[str, "dict[str, Any] | str"]
"""Where a row stands ("line 3"), and its fields, or in their place what is wrong with it."""


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file in their order; blank lines are skipped, and numbers keep their digits as text.

    Raises:
        RefeedError: kind "task", naming the file and the reason, when it cannot be read, is no regular file, is larger
            than MOST_BYTES, or is no array where it begins as one.
    """
    data = _content(path)
    if data.startswith(_GZIP):
        data = _unpacked(data, path)
    if data.startswith(_PARQUET):
        yield from _parquet_rows(data, path)
        return
    data = data.removeprefix(_BOM)
    if data[:1_000].lstrip().startswith(b"["):
        yield from _array_rows(data, path)
        return
    for number, line in enumerate(io.BytesIO(data), start=1):
        if line.strip():
            yield f"line {number}", _parsed(line)


def refuse(path: Path, reason: str, hint: str = _WANTED) -> RefeedError:
    """The error for a whole file."""
    return RefeedError("task", f"{path}: {reason}", hint)


def _content(path: Path) -> bytes:
    """The bytes of a regular file."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a device never ends, and a pipe never begins
            raise refuse(path, "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file")
        if found.st_size > MOST_BYTES:
            raise refuse(path, f"{found.st_size:,} bytes, above {MOST_BYTES:,}", "give the part that is to be measured")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise refuse(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > MOST_BYTES:
        raise refuse(path, f"above {MOST_BYTES:,} bytes", "give the part that is to be measured")
    return data


def _unpacked(data: bytes, path: Path) -> bytes:
    """What a gzip file holds."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise refuse(path, f"not a whole gzip file ({error})", "compress it again") from error
    if len(unpacked) > MOST_BYTES:
        raise refuse(path, f"above {MOST_BYTES:,} bytes unpacked", "give the part that is to be measured")
    return unpacked


def _parsed(text: bytes) -> Any:
    """A JSON object, or what is wrong with the text."""
    value = _decoded(text)
    return value if isinstance(value, dict | str) else "not a JSON object"


def _decoded(text: bytes) -> Any:
    """A JSON value with its numbers as text; a string says what is wrong, and a JSON string that it is one."""
    try:
        value = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start}"
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        return f"not JSON ({error.msg} at {where})"
    except RecursionError:
        return "nested too deeply"
    return "not a JSON object" if isinstance(value, str) else value


def _array_rows(data: bytes, path: Path) -> Iterator[Row]:
    """The elements of a JSON array."""
    values = _decoded(data)
    if isinstance(values, str):
        raise refuse(path, values)
    for number, value in enumerate(values, start=1):
        yield f"element {number}", value if isinstance(value, dict) else "not a JSON object"


def _parquet_rows(data: bytes, path: Path) -> Iterator[Row]:
    """The rows of a Parquet file."""
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        message = "reading Parquet needs pyarrow, which is not installed"
        raise refuse(path, message, "install it, from the checkout, with: pip install '.[parquet]'") from error
    try:
        file = parquet.ParquetFile(io.BytesIO(data))
        groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
        if file.metadata.num_rows > MOST_ROWS or sum(groups) > MOST_BYTES:
            raise refuse(path, f"{file.metadata.num_rows:,} rows of {sum(groups):,} bytes", "give a smaller part")
        batches = [batch.to_pylist() for batch in file.iter_batches(batch_size=10_000)]
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise refuse(path, f"not a whole Parquet file ({str(error).splitlines()[0][:120]})") from error
    for number, row in enumerate((row for batch in batches for row in batch), start=1):
        yield f"row {number}", as_text(row)


def as_text(value: Any) -> Any:
    """A value with all numbers in it spelled as text, as rows of JSON have them."""
    if isinstance(value, dict):
        return {str(key): as_text(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_text(inner) for inner in value]
    return value if value is None or isinstance(value, bool | str) else str(value)
