"""Has columns used wherever they can be, however little there is to read."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from kanalyze.analysis.extract import Extractors
from kanalyze.connection import columnar, cutting, frame_columns
from kanalyze.connection.reader import MessageReader
from kanalyze.connection.tracker import ConnectionTracker
from kanalyze.protocol.catalog import Catalog
from kanalyze.protocol.compiler import Decoders
from kanalyze.protocol.lockstep_tuples import RecordFacts
from kanalyze.protocol.records import RecordsSummary
from tests.support.talk import Talk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.connection.order import Sorted
    from kanalyze.model import StreamUpdate

COLUMN_APIS = frozenset({0, 1})
__all__ = ["ALWAYS_JOINED", "NEVER_JOINED", "ColumnTalk", "by_columns_at_once", "in_short"]

ALWAYS_JOINED, NEVER_JOINED = 1, 1 << 30
_MODULES = (columnar, cutting, frame_columns)


@contextmanager
def by_columns_at_once(few_frames: int = ALWAYS_JOINED, **limits: int) -> Iterator[None]:
    """Have a single pair of messages read by columns, meanwhile.

    Args:
        few_frames: after how many frames a stream's segments are joined.
        limits: others of :mod:`kanalyze.connection.columnar` and of
            :mod:`kanalyze.connection.frame_columns`, by name in small letters.
    """
    changes = {"least_pairs": 1, "least_alike": 1, "few_frames": few_frames, **limits}
    with ExitStack() as patches:
        for name, value in changes.items():
            constant = f"_{name.upper()}"
            (module,) = [each for each in _MODULES if hasattr(each, constant)]
            patches.enter_context(patch.object(module, constant, value))
        yield


class ColumnTalk(Talk):
    """A dialogue whose batches may be read by columns.

    ``steps`` holds what came of each batch; the exchanges of columns are in ``exchanges`` too, in
    order, but their messages hold of records no more than
    :class:`~kanalyze.protocol.lockstep_tuples.RecordFacts`.
    """

    def __init__(self, apis: frozenset[int] = COLUMN_APIS, **arguments: Any) -> None:
        catalog = Catalog()
        reader = MessageReader(catalog, Decoders(catalog), Extractors(catalog).wanted)
        self.steps: list[Sorted] = []
        super().__init__(tracker=ConnectionTracker(reader, catalog, by_columns=apis, **arguments))

    @property
    def by_column(self) -> list[int]:
        """The correlation ids of what came as columns."""
        every = [each for step in self.steps for each in step.columns]
        return [number for each in every for number in each.correlation_id.tolist()]

    def _update(self, update: StreamUpdate) -> ColumnTalk:
        step = self.tracker.feed_batch([update]).sort()
        self.steps.append(step)
        found = list(zip(step.turns.tolist(), step.exchanges, strict=True))
        for each in step.columns:
            found += zip(each.turn.tolist(), each.exchanges(), strict=True)
        found.sort(key=itemgetter(0))
        assert [turn for turn, _ in found] == list(range(len(found)))
        self.exchanges += [exchange for _, exchange in found]
        self.anomalies += self.tracker.take_anomalies()
        return self


def in_short(value: Any) -> Any:
    """What the decoder of single messages gives, with no more of records than columns keep."""
    if isinstance(value, RecordsSummary):
        return RecordFacts(
            value.record_bytes, value.record_count or 0, value.base_offset, value.codec
        )
    if type(value) in (list, tuple):
        return type(value)(map(in_short, value))
    return value
