"""Rows that a row assembler makes of exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.capture.merge import PacketRun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.requests.row_assembler import RowAssembler


class OneCapture:
    """Where packets are if there is one capture."""

    def __init__(self, name: str) -> None:
        self._name = name

    def locate(self, number: int) -> tuple[str, int | None]:
        return self._name, number

    def runs_between(self, low: int, high: int, most: int) -> list[PacketRun]:
        assert low <= high
        assert most > 0
        return [PacketRun(low, 0, self._name)]


def rows_of_exchanges(builder: RowAssembler, exchanges: Iterable[Exchange]) -> list[Row]:
    """Return the rows of exchanges, in order."""
    for exchange in exchanges:
        builder.add(exchange)
    return builder.drain().rows()
