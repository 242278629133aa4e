"""Throughput over time, in a bounded number of buckets.

In: times and amounts. Out: sums per bucket of time. This module must not know rows.

A bucket is 1 ms wide, or 2 ms, 4 ms, ...: the narrowest for which the time from the first event to
the last takes at most :data:`MAX_BUCKETS` buckets. Buckets begin at multiples of their width since
1970, so that doubling the width joins pairs of whole buckets: the sums are exact, and do not
depend on the order in which events or parts of an analysis are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Int64s: TypeAlias = "Sequence[int] | NDArray[np.int64]"

__all__ = ["MAX_BUCKETS", "ThroughputSeries"]

MAX_BUCKETS = 240
_FINEST_NS = 1_000_000

_REQUESTS, _ERRORS, _REQUEST_BYTES, _RESPONSE_BYTES = range(4)
_FIELDS = ("requests", "errors", "request_bytes", "response_bytes")


class ThroughputSeries:
    """Requests, errors and bytes by time.

    Times are Unix times in ns within int64.
    """

    __slots__ = ("_doublings", "_first", "_last", "_sums")

    def __init__(self) -> None:
        self._doublings = 0
        # Numbers of the first and the last bucket: time // width. Empty: last < first.
        self._first = 0
        self._last = -1
        # Column 0 is the first bucket; columns behind the last bucket hold zeros.
        self._sums = _zeros()

    @property
    def bucket_ns(self) -> int:
        """Width of a bucket in ns: 1 ms times a power of two."""
        return _FINEST_NS << self._doublings

    def add_requests(self, times_ns: Int64s, request_bytes: Int64s) -> None:
        """Count a request, with its bytes, at each time; both sequences have one length."""
        self._add(times_ns, _REQUESTS, _REQUEST_BYTES, request_bytes)

    def add_responses(self, times_ns: Int64s, response_bytes: Int64s) -> None:
        """Count the bytes of a response at each time; both sequences have one length."""
        self._add(times_ns, None, _RESPONSE_BYTES, response_bytes)

    def add_errors(self, times_ns: Int64s) -> None:
        """Count an error at each time."""
        self._add(times_ns, _ERRORS, None, ())

    def merge(self, other: ThroughputSeries) -> None:
        """Add the events of another series; associative and commutative."""
        if other._last < other._first:
            return
        drop = self._doublings - other._doublings
        if drop < 0:
            self._rebuild(-drop, self._first >> -drop, self._last >> -drop)
            drop = 0
        self._cover(other._first >> drop, other._last >> drop)
        self._add_series(other, self._doublings - other._doublings)

    def to_dict(self) -> dict[str, Any]:
        """Return ``{start_ns, bucket_ns, requests, errors, request_bytes, response_bytes}``.

        ``start_ns`` is where the first bucket begins (None without events); the others but
        ``bucket_ns`` are lists, an entry per bucket, up to the last bucket with an event.
        """
        count = self._last - self._first + 1
        return {
            "start_ns": self._first * self.bucket_ns if count else None,
            "bucket_ns": self.bucket_ns,
            **{
                name: amounts[:count].tolist()
                for name, amounts in zip(_FIELDS, self._sums, strict=True)
            },
        }

    def save_state(self) -> tuple[Any, ...]:
        """Return the series as integers and lists of them, as :meth:`load_state` takes them."""
        return self._doublings, self._first, self._last, self._sums.tolist()

    def load_state(self, state: tuple[Any, ...]) -> None:
        """Undo :meth:`save_state`; raises ValueError or OverflowError for anything else."""
        self._doublings, self._first, self._last, sums = state
        loaded = np.array(sums, dtype=np.int64)
        if loaded.shape != self._sums.shape:
            raise ValueError(f"{loaded.shape} sums")
        self._sums = loaded

    def _add(
        self,
        times_ns: Int64s,
        counted: int | None,
        summed: int | None,
        amounts: Int64s,
    ) -> None:
        if not len(times_ns):
            return
        times = np.array(times_ns, dtype=np.int64)
        self._cover(int(times.min()) // self.bucket_ns, int(times.max()) // self.bucket_ns)
        columns = times // self.bucket_ns - self._first
        if counted is not None:
            np.add.at(self._sums[counted], columns, 1)
        if summed is not None:
            np.add.at(self._sums[summed], columns, np.array(amounts, dtype=np.int64))

    def _cover(self, first: int, last: int) -> None:
        """Let the series reach from bucket ``first`` to ``last``, doubling the width as needed.

        The numbers are those of the width before the call.
        """
        if self._last >= self._first:
            first, last = min(first, self._first), max(last, self._last)
        drop = 0
        while last - first >= MAX_BUCKETS:
            first, last, drop = first >> 1, last >> 1, drop + 1
        if drop or first != self._first:
            self._rebuild(drop, first, last)
        self._last = last

    def _rebuild(self, drop: int, first: int, last: int) -> None:
        """Double the width ``drop`` times and let column 0 be bucket ``first``."""
        narrow = ThroughputSeries()
        narrow._first, narrow._last, narrow._sums = self._first, self._last, self._sums
        self._doublings += drop
        self._first, self._last, self._sums = first, last, _zeros()
        self._add_series(narrow, drop)

    def _add_series(self, other: ThroughputSeries, drop: int) -> None:
        """Add the buckets of a series ``drop`` doublings narrower; they must be covered."""
        numbers = np.arange(other._first, other._last + 1, dtype=np.int64)
        columns = (numbers >> drop) - self._first
        for own, added in zip(self._sums, other._sums, strict=True):
            np.add.at(own, columns, added[: len(columns)])


def _zeros() -> NDArray[np.int64]:
    return np.zeros((len(_FIELDS), MAX_BUCKETS), dtype=np.int64)
