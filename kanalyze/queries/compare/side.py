"""One side of a comparison, as values.

In: nothing. Out: :class:`Side`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]

__all__ = [
    "OF_READ",
    "QUANTILES",
    "STATUSES",
    "LatencyCells",
    "LineKey",
    "Presence",
    "Side",
    "SideLine",
]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
STATUSES = ("errors", "unanswered", "throttled", "unread")
OF_READ = ("errors", "throttled")
"""The statuses that are known only of responses that were read."""

LineKey: TypeAlias = "tuple[str, str, str | None]"
"""The line of a comparison: ``api``, ``client``, ``topic`` or ``broker``; the API; the name."""


class LatencyCells(NamedTuple):
    """Numbers of latencies, by slice of time and bin of latency."""

    slices: Numbers
    bins: Numbers
    counts: Numbers


class SideLine(NamedTuple):
    """The figures of one line; None if unknown."""

    requests: int
    due: int
    """Number of requests that a response is due to."""
    errors: int | None
    unanswered: int | None
    throttled: int | None
    waited: int | None
    request_bytes: int | None
    response_bytes: int | None
    latency_ns: dict[str, int | None]
    """``count``, ``p50``, ``p90`` and ``p99`` in ns, of requests that did not wait on purpose."""
    unread: int | None
    """Number of responses that were not read; None in a report that does not count them."""
    by_slice: dict[str, Numbers] | None = None
    """Numbers of ``due`` and of each status, by slice; None if there are no rows."""
    latencies: LatencyCells | None = None

    def base_of(self, status: str) -> int:
        """Return of how many requests it is known whether they have a status."""
        return self.due - (self.unread or 0) if status in OF_READ else self.due


class Presence(NamedTuple):
    """How often a name occurred."""

    requests: int
    seconds: int | None
    """Number of seconds with requests in which it occurred; None if there are no rows."""


class Side(NamedTuple):
    """One of the two sides of a comparison."""

    extent: dict[str, Any]
    """Description of the input and its time, as in the comparison."""
    seconds: int | None
    """Number of seconds with requests; None if there are no rows."""
    span_ns: int | None
    """Time from the first request to the last in ns."""
    slices: int | None
    lines: dict[LineKey, SideLine]
    names: dict[str, dict[str, Presence]]
    """Names by kind; a missing kind is unknown."""
    limited: bool
    """Whether lines were left out because there were too many."""
    failed_queries: Sequence[dict[str, str]] = ()
    """The queries that failed; without them, lines or kinds of names are missing."""
