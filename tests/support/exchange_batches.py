"""The exchanges of captures with their rows, as objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.spec.rows.requests import Row


def exchange_batches(analysis: Analysis) -> Iterator[list[tuple[Exchange, Row]]]:
    """Yield the exchanges with their rows, by block."""
    for exchanges, block in analysis.exchange_blocks():
        yield list(zip(exchanges, block.rows(), strict=True))
