"""Reads all captures of an archive, and keeps the segments of one bucket.

In: captures that were read before, so that their numbers of packets are known. Out: segments by
time, numbered over all captures, and the capture and number of each packet.

Reading headers takes much less time than making rows. So if few tasks rebuild connections, each
reads all captures: this takes less time than sending segments from the task that read them to the
one that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.batch.archive.continued_captures import ContinuedCaptures
from kanalyze.capture.io.source import capture_name
from kanalyze.capture.io.stores import absolute_path
from kanalyze.errors import CaptureError
from kanalyze.export.row_groups import utf8
from kanalyze.net.headers import HeaderReader
from kanalyze.net.layer_stats import LayerStats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.capture.inputs import FoundCapture
    from kanalyze.capture.io.stores import Stores
    from kanalyze.capture.merge import PacketRun
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.net.segment_columns import SegmentColumns
    from kanalyze.net.shard import Shard

__all__ = ["ShardReader"]


class ShardReader(ContinuedCaptures):
    """The segments of one bucket as one stream.

    It takes the place of :class:`~kanalyze.batch.archive.shuffle_reader.ShuffleReader`.
    """

    dropped_packets: int | None = None
    progress: tuple[int, int | None] = (0, None)

    def __init__(
        self,
        captures: Sequence[FoundCapture],
        shard: Shard,
        stores: Stores,
        state: str | None = None,
        folder: str = "",
    ) -> None:
        """Make a reader.

        Args:
            captures: in the order of their first packets; each with the number of packets that
                were read of it before.
            shard: the connections of the bucket.
            stores: file systems connected to before.
            state: what :meth:`save_state` returned for the captures before these.
            folder: the base of relative paths; rows have the paths as they were given.

        Raises:
            BlockError: the state is damaged.
        """
        self._shard = shard
        absolute = [
            capture._replace(path=absolute_path(capture.path, folder)) for capture in captures
        ]
        self._names_in_rows = {
            capture_name(opened.path): utf8(capture_name(capture.path)).decode()
            for opened, capture in zip(absolute, captures, strict=True)
        }
        """The names of captures in rows, by the names under which they are opened."""
        super().__init__(absolute, stores, state)
        counts = [capture.most_packets or 0 for capture in captures]
        self._last_packet = self._merged.packets + sum(counts)
        self.anomalies: list[Anomaly] = []
        """Empty: they were reported when the captures were read before."""

    @property
    def names(self) -> list[str]:
        """Captures opened so far, as they were given."""
        return [self._name_in_rows(name) for name in super().names]

    def locate(self, number: int) -> tuple[str, int | None]:
        """Return the capture of a packet and its number there; see ``MergedCaptures.locate``."""
        name, within = self._merged.locate(number)
        return self._name_in_rows(name), within

    def runs_between(self, low: int, high: int, most: int) -> list[PacketRun] | None:
        """Return runs of packets; see ``MergedCaptures.runs_between``."""
        runs = super().runs_between(low, high, most)
        if runs is None:
            return None
        return [run._replace(capture=self._name_in_rows(run.capture)) for run in runs]

    def _name_in_rows(self, opened: str) -> str:
        """Return the name of a capture in rows, given the one under which it was opened."""
        return self._names_in_rows.get(opened, opened)

    def batches(self) -> Iterator[SegmentColumns]:
        """Yield all segments in batches, none of which is empty; their numbers rise.

        Raises:
            CaptureError: a capture cannot be read, or has lost packets since it was read before.
        """
        headers = HeaderReader(LayerStats())
        for batch in self._merged.batches():
            segments = headers.read(batch, self._shard)
            if len(segments):
                yield segments
        if self._merged.packets != self._last_packet:
            raise CaptureError("a capture was changed while it was read: run again")
