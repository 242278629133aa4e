"""Whether the batches of a records field belong to aborted transactions.

In: the aborted transactions that a Fetch response lists, and the batches beside them. Out: true,
false or unknown for each batch.

A consumer with the isolation level ``read_committed`` gets a list of aborted transactions: producer
id and first offset. Each ends at the producer's next marker (KIP-98). Other consumers get no list;
but if the response has the next marker of a producer, that shows how the transaction ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.records.types import control_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kanalyze.kafka.records.batches import RecordBatch

__all__ = ["Transactions"]

_ABORT, _COMMIT = "abort", "commit"


class Transactions:
    """The transactions of the batches in one records field of a Fetch response."""

    def __init__(
        self, batches: Iterable[RecordBatch], aborted: Sequence[tuple[int, int]] | None
    ) -> None:
        """Begin before the first batch.

        Args:
            batches: the batches, which are iterated from the first one to find markers.
            aborted: producer id and first offset of each aborted transaction; None if the response
                does not list them.
        """
        self._batches = batches
        self._pending: list[tuple[int, int]] | None = None
        """Aborted transactions that have not begun yet, the last one first."""
        if aborted is not None:
            self._pending = sorted(aborted, key=lambda transaction: -transaction[1])
        self._open: set[int] = set()
        """Producer ids of the aborted transactions that have begun and not ended."""
        self._markers: dict[int, list[tuple[int, str]]] | None = None

    def is_aborted(self, batch: RecordBatch) -> bool | None:
        """Return true if a batch is of an aborted transaction; call it for each one, in order.

        None for control batches, and if it is not known.
        """
        producer_id = batch.producer_id
        if batch.is_control:
            if producer_id is not None:
                self._open_until(batch.base_offset)
                self._open.discard(producer_id)
            return None
        if not batch.is_transactional or producer_id is None:
            return False
        if self._pending is not None:
            self._open_until(batch.base_offset)
            return producer_id in self._open
        kind = self._next_marker(producer_id, batch.base_offset)
        return None if kind is None else kind == _ABORT

    def _open_until(self, offset: int) -> None:
        """Open the aborted transactions that begin up to an offset."""
        while self._pending and self._pending[-1][1] <= offset:
            self._open.add(self._pending.pop()[0])

    def _next_marker(self, producer_id: int, offset: int) -> str | None:
        """Return the type of a producer's first marker after an offset; None if there is none."""
        if self._markers is None:
            self._markers = _markers(self._batches)
        for at, kind in self._markers.get(producer_id, ()):
            if at > offset:
                return kind
        return None


def _markers(batches: Iterable[RecordBatch]) -> dict[int, list[tuple[int, str]]]:
    """Return offset and type of the markers that end transactions, by producer id."""
    markers: dict[int, list[tuple[int, str]]] = {}
    for batch in batches:
        if batch.is_control and batch.producer_id is not None:
            for record in batch.records():
                kind = control_type(record.key)
                if kind in (_ABORT, _COMMIT):
                    markers.setdefault(batch.producer_id, []).append((record.offset, kind))
    return markers
