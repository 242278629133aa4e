"""The rows that closing all open connections would make, kept beside their saved state.

In: rows of all tables; or bytes. Out: bytes; and the rows in them. A saved state can be read by the
versions of kanalyze that know its format. These rows can be read by all: they are columns by name,
as JSON. Where the state cannot be read, they are what is known of its connections.

The bytes are a line of text (format, size of the rest, checksum), then compressed JSON. A column
that the table did not have yet is null, and one that it does not have any more is left out.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from array import array
from typing import TYPE_CHECKING, Any, Final

from kanalyze.runtime.table_rows import TableRows
from kanalyze.spec.rows.anomalies import AnomalyRow
from kanalyze.spec.rows.connections import ConnectionRow
from kanalyze.spec.rows.tables import TABLES, stored_columns
from kanalyze.tables.columns.block import Ints, Lists, RowBlock, Words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import ColumnValues

_MAGIC: Final = b"kanalyze-rows"
_FORMAT: Final = b"1"
"""Must be raised only if rows cannot be columns by name any more."""
_LONGEST_LINE_BYTES: Final = 100
_DIGEST_BYTES: Final = 16
_COMPRESSION_LEVEL: Final = 1
_MAX_BYTES: Final = 4 << 30
_DAMAGED: Final = (ValueError, TypeError, LookupError, OverflowError, RecursionError, zlib.error)


class ClosingRowsError(Exception):
    """Bytes are not rows that were saved here."""


def before_state(rows: Iterable[TableRows], state: bytes) -> bytes:
    """Return the bytes of rows, followed by a state; see :func:`split`."""
    saved = [
        {"first_id": part.first_id, "blocks": [[name, _plain(block)] for name, block in blocks]}
        for part in rows
        if (blocks := list(part.blocks()))
    ]
    packed = zlib.compress(json.dumps(saved).encode("ascii"), _COMPRESSION_LEVEL)
    line = b"%s %s %d %s" % (_MAGIC, _FORMAT, len(packed), _digest(packed))
    return b"%s\n%s%s" % (line, packed, state)


def split(data: bytes) -> tuple[bytes | None, bytes]:
    """Return the rows before a state, for :func:`rows_of`, and the state.

    The rows are None if there are none, as before states of format 12, or if they are damaged.
    """
    end = data.find(b"\n", 0, _LONGEST_LINE_BYTES)
    words = data[: max(end, 0)].split(b" ")
    if len(words) != 4 or words[0] != _MAGIC or not words[2].isdigit():
        return None, data
    packed_end = end + 1 + int(words[2])
    packed = data[end + 1 : packed_end]
    is_whole = words[1] == _FORMAT and words[3] == _digest(packed)
    return packed if is_whole else None, data[packed_end:]


def rows_of(packed: bytes) -> list[TableRows]:
    """Return the rows that :func:`split` found; raises ClosingRowsError for other bytes."""
    decoder = zlib.decompressobj()
    try:
        saved = json.loads(decoder.decompress(packed, _MAX_BYTES))
        return [_rows(part["first_id"], part["blocks"]) for part in saved]
    except _DAMAGED as error:
        raise ClosingRowsError(str(error)) from error


def _digest(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=_DIGEST_BYTES).hexdigest().encode()


def _rows(first_id: int, blocks: Sequence[tuple[str, dict[str, Any]]]) -> TableRows:
    requests: list[RowBlock] = []
    connections: list[ConnectionRow] = []
    anomalies: list[AnomalyRow] = []
    lines: list[tuple[str, RowBlock]] = []
    for table, plain in blocks:
        columns = TABLES[table].columns
        if table == "requests":
            requests.append(_block(plain, columns))
        elif table == "connections":
            values = _block(plain, columns).values(columns)
            connections += map(ConnectionRow._make, zip(*values, strict=True))
        elif table == "anomalies":
            values = _block(plain, columns).values(columns)
            anomalies += map(AnomalyRow._make, zip(*values, strict=True))
        else:
            lines.append((table, _block(plain, stored_columns(table))))
    return TableRows(requests, connections, anomalies, lines=lines, first_id=first_id)


# -- columns --------------------------------------------------------------------------------------


def _plain(block: RowBlock) -> dict[str, Any]:
    columns = {name: _plain_column(values) for name, values in block.columns.items()}
    return {"rows": len(block), "columns": columns}


def _plain_column(values: ColumnValues) -> Any:
    if isinstance(values, Lists):
        fields = {name: _plain_column(field) for name, field in values.fields.items()}
        return {"offsets": values.offsets.tolist(), "fields": fields}
    if isinstance(values, Words):
        return [None if code < 0 else values.words[code] for code in values.codes]
    numbers = values.values.tolist()
    if values.valid is None:
        return numbers
    return [
        number if is_valid else None for number, is_valid in zip(numbers, values.valid, strict=True)
    ]


def _block(plain: dict[str, Any], columns: Sequence[Column]) -> RowBlock:
    count, saved = plain["rows"], plain["columns"]
    return RowBlock(
        count, {column.name: _column(saved.get(column.name), column, count) for column in columns}
    )


def _column(saved: Any, column: Column, count: int) -> ColumnValues:
    if not column.type.startswith("list<"):
        return _items([None] * count if saved is None else saved, column.type, count)
    offsets = [0] * (count + 1) if saved is None else saved["offsets"]
    fields = {} if saved is None else saved["fields"]
    if len(offsets) != count + 1 or offsets[0] or sorted(offsets) != offsets:
        raise ValueError("the lists of a column do not follow each other")
    kinds = [(field.name, field.type) for field in column.fields or ()] or [("", "string")]
    items = {
        name: _items(fields.get(name, [None] * offsets[-1]), kind, offsets[-1])
        for name, kind in kinds
    }
    return Lists(array("q", offsets), items)


def _items(values: Sequence[Any], kind: str, count: int) -> Ints | Words:
    if len(values) != count:
        raise ValueError("a column has more or fewer rows than the others")
    if kind == "string":
        words = [word for word in dict.fromkeys(values) if word is not None]
        codes: dict[str | None, int] = {word: code for code, word in enumerate(words)}
        codes[None] = -1
        return Words(array("i", [codes[value] for value in values]), words)
    valid = bytearray(value is not None for value in values) if None in values else None
    return Ints(array("q", [value or 0 for value in values]), valid)
