"""The columns that a line copies from its request's row.

In: nothing. Out: :data:`CARRIED_COLUMNS`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.tables.row import COLUMNS, Column

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.tables.columns.block import RowBlock

__all__ = ["CARRIED_COLUMNS", "CARRIED_NAMES", "REQUEST_ID", "rows_maker"]

REQUEST_ID = Column(
    "request_id",
    "int64",
    "",
    False,
    "number of the request's row in the table requests, from 1",
)

_NAMES = (
    *("capture", "connection", "connection_number", "client_ip", "broker_ip", "broker_port"),
    *("client_id", "principal", "api_key", "api_name", "api_version", "correlation_id"),
    *("request_start_ns", "request_end_ns", "response_start_ns", "response_end_ns"),
    *("latency_ns", "waited", "request_packet", "response_packet", "status"),
)
_BY_NAME = {column.name: column for column in COLUMNS}

CARRIED_NAMES = _NAMES
"""The columns that are copied unchanged."""
CARRIED_COLUMNS: tuple[Column, ...] = (REQUEST_ID, *(_BY_NAME[name] for name in _NAMES))

_Rows: TypeAlias = "Callable[[RowBlock], list[tuple[Any, ...]]]"


def rows_maker(name: str, columns: Sequence[Column]) -> _Rows:
    """Return a function that makes named tuples of type ``name`` from the columns of a block."""
    row_type: Any = namedtuple(name, [column.name for column in columns])  # type: ignore[misc]

    def rows(block: RowBlock) -> list[tuple[Any, ...]]:
        return list(map(row_type._make, zip(*block.values(columns), strict=True)))

    return rows
