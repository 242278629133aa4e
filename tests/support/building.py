"""Rows of exchanges, as a builder makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.analysis.row import Row
    from kanalyze.analysis.row_builder import RowBuilder
    from kanalyze.connection.exchange import Exchange


def rows_of_exchanges(builder: RowBuilder, exchanges: Iterable[Exchange]) -> list[Row]:
    """Return the rows of exchanges, in order."""
    for exchange in exchanges:
        builder.add(exchange)
    return builder.take().rows()
