"""One side of a comparison, as values.

In: nothing. Out: :class:`Side`. This module must not know where figures come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]

__all__ = ["QUANTILES", "STATUSES", "LatencyCells", "LineKey", "Presence", "Side", "SideLine"]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
STATUSES = ("errors", "unanswered", "throttled")

LineKey: TypeAlias = "tuple[str, str, str | None]"
"""What is compared: ``api``, ``client``, ``topic`` or ``broker``; the API; the name of that."""


class LatencyCells(NamedTuple):
    """How many latencies there are, by slice of time and bin of latency."""

    slices: Numbers
    bins: Numbers
    counts: Numbers


class SideLine(NamedTuple):
    """The figures of one line; None is not known."""

    requests: int
    due: int
    """Those that an answer is due to."""
    errors: int | None
    unanswered: int | None
    throttled: int | None
    waited: int | None
    request_bytes: int | None
    response_bytes: int | None
    latency_ns: dict[str, int | None]
    """``count``, ``p50``, ``p90`` and ``p99``, of requests that did not wait on purpose."""
    by_slice: dict[str, Numbers] | None = None
    """``due`` and the statuses; None where there are no rows."""
    latencies: LatencyCells | None = None


class Presence(NamedTuple):
    """How often something was there."""

    requests: int
    seconds: int | None
    """In how many of the seconds with requests; None where there are no rows."""


class Side(NamedTuple):
    """One of the two that are compared."""

    extent: dict[str, Any]
    """What it is, and when, as the comparison has it."""
    seconds: int | None
    """How many seconds have requests; None where there are no rows."""
    span_ns: int | None
    """From the first request to the last."""
    slices: int | None
    lines: dict[LineKey, SideLine]
    names: dict[str, dict[str, Presence]]
    """By kind and name; a kind that is not there is not known."""
    limited: bool
    """Whether there were more lines than are kept."""
