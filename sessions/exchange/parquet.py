"""A documented table as a Parquet file; pyarrow is loaded only when one is written."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from sessions.errors import RefeedError

if TYPE_CHECKING:
    from types import ModuleType
    from typing import BinaryIO

    from sessions.exchange.tables import Table

_ROWS: Final = 16384


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, and slow to load
        from pyarrow import parquet  # noqa: PLC0415 - the same
    except ImportError:
        raise RefeedError("usage", "parquet needs pyarrow", "`pip install '.[parquet]'` from the checkout") from None
    return pa, parquet


def check_available() -> None:
    """Pass when Parquet can be written here.

    Raises:
        RefeedError: kind "usage" when pyarrow is missing, with what to install.
    """
    _pyarrow()


def write(table: Table, file: BinaryIO) -> None:
    """Stream a table into a file; each column carries its unit and meaning as field metadata.

    Args:
        table: its rows are read once.
        file: opened for writing.

    Raises:
        RefeedError: kind "usage" when pyarrow is missing.
        OSError: the file cannot be written.
    """
    pa, parquet = _pyarrow()
    types = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}
    schema = pa.schema(
        [
            pa.field(column.name, types[column.type], metadata={"unit": column.unit, "meaning": column.meaning})
            for column in table.columns
        ]
    )
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        rows = iter(table.rows)
        while chunk := list(itertools.islice(rows, _ROWS)):
            columns: list[Any] = [
                pa.array(values, field.type) for values, field in zip(zip(*chunk, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
