"""Rows that a row assembler makes of exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.tables.requests.row_assembler import RowAssembler
    from kanalyze.tables.row import Row


def rows_of_exchanges(builder: RowAssembler, exchanges: Iterable[Exchange]) -> list[Row]:
    """Return the rows of exchanges, in order."""
    for exchange in exchanges:
        builder.add(exchange)
    return builder.drain().rows()
