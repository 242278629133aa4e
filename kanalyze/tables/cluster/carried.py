"""The columns that a line takes over from the row of its request.

In: nothing. Out: :data:`CARRIED_COLUMNS`. This module must not know the tables that have them.
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
    "number of the request's row, from 1, in the order of the table requests",
)

_NAMES = (
    *("capture", "connection", "connection_number", "client_ip", "broker_ip", "broker_port"),
    *("client_id", "principal", "api_key", "api_name", "api_version", "correlation_id"),
    *("request_start_ns", "request_end_ns", "response_start_ns", "response_end_ns"),
    *("latency_ns", "waited", "request_packet", "response_packet", "status"),
)
_BY_NAME = {column.name: column for column in COLUMNS}

CARRIED_NAMES = _NAMES
"""As they stand in the row."""
CARRIED_COLUMNS: tuple[Column, ...] = (REQUEST_ID, *(_BY_NAME[name] for name in _NAMES))

_Rows: TypeAlias = "Callable[[RowBlock], list[tuple[Any, ...]]]"


def rows_maker(name: str, columns: Sequence[Column]) -> _Rows:
    """Return what makes named tuples of a block with these columns; ``name`` is their type's."""
    made: Any = namedtuple(name, [column.name for column in columns])  # type: ignore[misc]

    def rows(block: RowBlock) -> list[tuple[Any, ...]]:
        return list(map(made._make, zip(*block.values(columns), strict=True)))

    return rows
