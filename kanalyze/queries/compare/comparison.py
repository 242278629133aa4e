"""Compares two sides: what is slower, failing, new, or gone; ranked, and tested for chance.

In: two sides, and thresholds. Out: the comparison as plain values.

Captures differ in length and load, so rates, shares, and figures per request are compared. A
difference is listed if it is large enough (:class:`Thresholds`) and beyond chance
(:mod:`~kanalyze.queries.compare.chance`). Differences that are large enough but may be chance are
listed separately, and so are lines with too few requests. A report has no rows, so nothing in it
can be tested.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.queries.compare.chance import Counts, Resampled, chances
from kanalyze.queries.compare.findings import only_in
from kanalyze.queries.compare.sides import BIN_RATIO, OF_READ, QUANTILES, STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Self

    from kanalyze.queries.compare.chance import Chance
    from kanalyze.queries.compare.sides import LatencyCells, LineKey, Presence, Side, SideLine

SCHEMA = 1
FALSE_ALARMS = 0.05
"""Probability that any difference is reported if there is none."""
MIN_REQUESTS = 30
MIN_BEYOND = 10
"""Requests that must be beyond a quantile: for the 99th percentile, 1,000 requests."""
MIN_OCCUPIED = 5
"""Minimum number of slices with requests."""
_KINDS = ("api", "client", "topic", "broker")
_GLOB = re.compile(r"[?\[]")
_OPTIONS = {"client": "--client-id", "topic": "--topic", "broker": "--broker"}
_SECTIONS = {
    ("latency", True): "slower",
    ("latency", False): "faster",
    ("status", True): "fails_more",
    ("status", False): "fails_less",
}


class Thresholds(NamedTuple):
    """The smallest differences to list."""

    at_least: float = 1.2
    """Ratio of latencies, or of shares of failures."""
    least_ns: int = 1_000_000
    """Difference of latencies in ns."""
    least_share: float = 0.001
    """Difference of the shares of failed requests, 0 to 1."""

    @classmethod
    def of(
        cls, at_least: float | None, least_ms: float | None, least_percent: float | None
    ) -> Self:
        """Return thresholds from values in ms and percent; None for the default.

        Raises UsageError for an invalid value.
        """
        defaults = cls()
        ratio, time_ms, percent = (
            default if value is None else value
            for value, default in (
                (at_least, defaults.at_least),
                (least_ms, defaults.least_ns / 1_000_000),
                (least_percent, defaults.least_share * 100),
            )
        )
        for name, value in (("at_least", ratio), ("least_ms", time_ms), ("least_percent", percent)):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"{name}: not a number: {value!r}")
        if not 1 < ratio < 1e9:
            raise UsageError(f"at_least: not a number above 1: {ratio!r}")
        if not 0 <= time_ms < 1e9:
            raise UsageError(f"least_ms: not a number of milliseconds: {time_ms!r}")
        if not 0 <= percent <= 100:
            raise UsageError(f"least_percent: not a number from 0 to 100: {percent!r}")
        return cls(ratio, round(time_ms * 1_000_000), percent / 100)


_LONGEST = "max"


class _Measure(NamedTuple):
    """One figure of one line, on both sides."""

    key: LineKey
    name: str
    a: float
    b: float
    counts: Callable[[], tuple[Counts, Counts]] | None
    """Returns the counts for the test; None if there are no rows."""

    @property
    def is_latency(self) -> bool:
        return self.name in QUANTILES or self.name == _LONGEST

    @property
    def is_worse(self) -> bool:
        return self.b > self.a

    def matters(self, thresholds: Thresholds) -> bool:
        """Return true if the difference is large enough to list."""
        least = thresholds.least_ns if self.is_latency else thresholds.least_share
        low, high = sorted((self.a, self.b))
        return high > low and high - low >= least and high >= thresholds.at_least * low


def compare_sides(a: Side, b: Side, thresholds: Thresholds) -> dict[str, Any]:
    """Return the comparison of two sides."""
    measures, too_few = _measures(a, b)
    tested = a.slices is not None and b.slices is not None
    differences = _Differences(a, b, measures, thresholds)
    sections = {
        name: differences.changes(kind, is_worse=is_worse)
        for (kind, is_worse), name in _SECTIONS.items()
    }
    new, gone = _only_on_one_side(a, b)
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "a": _extent(a),
        "b": _extent(b),
        "settings": {
            "at_least": thresholds.at_least,
            "least_ns": thresholds.least_ns,
            "least_share": thresholds.least_share,
            "false_alarms": FALSE_ALARMS,
        },
        "tested": tested,
        "not_tested": None if tested else _why_not_tested(a, b),
        "differences_tested": len(measures) if tested else 0,
        **sections,
        "may_be_chance": differences.maybe(),
        "new": new,
        "gone": gone,
        "new_findings": only_in(b.findings, a.findings),
        "gone_findings": only_in(a.findings, b.findings),
        "alike": differences.alike(),
        "too_few": [_unjudged(a, b, key, thresholds) for key in too_few],
        "judged": bool(measures),
        "load": [_load(a, b, key) for key in _shared(a, b) if key[0] == "api"],
        "limited": a.limited or b.limited,
    }
    failed = [*a.failed_queries, *b.failed_queries]
    if failed:
        result["failed_queries"] = failed
    return result


def _unjudged(a: Side, b: Side, key: LineKey, thresholds: Thresholds) -> dict[str, Any]:
    """Return a line with too few requests, with the latency that differs most."""
    line_a, line_b = a.lines[key], b.lines[key]
    figures = [
        _Measure(key, name, of_a, of_b, None)
        for name in (*QUANTILES, _LONGEST)
        if (of_a := line_a.latency_ns.get(name)) and (of_b := line_b.latency_ns.get(name))
    ]
    large = [each for each in figures if each.matters(thresholds)]
    largest = max(large, key=lambda each: abs(math.log(each.b / each.a)), default=None)
    return {
        **_identity(key),
        "requests": [line_a.requests, line_b.requests],
        "largest": None
        if largest is None
        else {
            "measure": largest.name,
            "a": largest.a,
            "b": largest.b,
            "ratio": round(largest.b / largest.a, 4),
        },
    }


def _extent(side: Side) -> dict[str, Any]:
    extent = side.extent
    return {
        **extent,
        "span_ns": side.span_ns,
        "requests_per_s": _rate(extent["requests"], side),
        "slices": side.slices,
        "slice_s": round(side.seconds / side.slices, 3) if side.seconds and side.slices else None,
    }


def _why_not_tested(a: Side, b: Side) -> str:
    if a.seconds is None or b.seconds is None:
        return "a report has no rows to test: use captures or saved files"
    if not a.seconds or not b.seconds:
        return "one side has no requests"
    shorter, longer = sorted((a.seconds, b.seconds))
    if shorter < longer / 100:
        return (
            f"one side has requests in {longer} seconds, the other in {shorter}: select similar "
            "lengths of time with --since and --until"
        )
    return f"requests in only {shorter} seconds, but a test needs 8"


def _rate(count: int, side: Side) -> float | None:
    """Return a count per second; None if the side is shorter than a second."""
    span_ns = side.span_ns or 0
    return round(count * 1e9 / span_ns, 3) if span_ns >= 1_000_000_000 else None


def _shared(a: Side, b: Side) -> list[LineKey]:
    """Return the lines that both sides have, the busiest first."""
    keys = [key for key in a.lines if key in b.lines]
    return sorted(
        keys,
        key=lambda key: (
            -a.lines[key].requests - b.lines[key].requests,
            _KINDS.index(key[0]),
            key[1],
            key[2] or "",
        ),
    )


# -- what is measured -----------------------------------------------------------------------------


def _measures(a: Side, b: Side) -> tuple[list[_Measure], list[LineKey]]:
    """Return all figures that can be compared, and the lines with too few requests."""
    measures: list[_Measure] = []
    too_few: list[LineKey] = []
    for key in _shared(a, b):
        count_before = len(measures)
        line_a, line_b = a.lines[key], b.lines[key]
        if _is_spread(line_a) and _is_spread(line_b):
            measures += _latency_measures(key, line_a, line_b, a.slices, b.slices)
            measures += _status_measures(key, line_a, line_b)
        if len(measures) == count_before:
            too_few.append(key)
    return measures, too_few


def _is_spread(line: SideLine) -> bool:
    """Return true if a line has enough requests and, if known, enough slices with requests."""
    if line.requests < MIN_REQUESTS:
        return False
    return line.by_slice is None or int((line.by_slice["due"] > 0).sum()) >= MIN_OCCUPIED


def _latency_measures(
    key: LineKey, line_a: SideLine, line_b: SideLine, slices_a: int | None, slices_b: int | None
) -> Iterator[_Measure]:
    fewest = min(line.latency_ns["count"] or 0 for line in (line_a, line_b))
    for name, part in QUANTILES.items():
        a, b = line_a.latency_ns[name], line_b.latency_ns[name]
        is_enough = fewest >= MIN_REQUESTS and fewest * (1 - part) >= MIN_BEYOND - 1e-6
        if a is None or b is None or not is_enough:
            continue
        counts = None
        if line_a.latencies and line_b.latencies and slices_a and slices_b:
            counts = partial(_slower, line_a.latencies, line_b.latencies, slices_a, slices_b, part)
        yield _Measure(key, name, a, b, counts)


def _slower(
    a: LatencyCells, b: LatencyCells, slices_a: int, slices_b: int, part: float
) -> tuple[Counts, Counts]:
    """Return how many are slower than the quantile of both sides, which have equal weight."""
    low = min(int(a.bins.min()), int(b.bins.min()))
    high = max(int(a.bins.max()), int(b.bins.max()))
    shares = np.zeros(high - low + 1)
    for cells in (a, b):
        shares += np.bincount(cells.bins - low, cells.counts, len(shares)) / cells.counts.sum() / 2
    limit = low + int(np.searchsorted(np.cumsum(shares), part - 1e-9))
    return _counts(a, slices_a, limit), _counts(b, slices_b, limit)


def _counts(cells: LatencyCells, slices: int, limit: int) -> Counts:
    is_beyond = cells.bins > limit
    return Counts(
        np.bincount(cells.slices[is_beyond], cells.counts[is_beyond], slices).astype(float),
        np.bincount(cells.slices, cells.counts, slices).astype(float),
    )


def _status_measures(key: LineKey, line_a: SideLine, line_b: SideLine) -> Iterator[_Measure]:
    for name in STATUSES:
        a, b = getattr(line_a, name), getattr(line_b, name)
        base_a, base_b = line_a.base_of(name), line_b.base_of(name)
        if min(base_a, base_b) < MIN_REQUESTS or a is None or b is None or a == b == 0:
            continue
        counts = None
        if line_a.by_slice and line_b.by_slice:
            counts = partial(_failed, line_a, line_b, name)
        yield _Measure(key, name, a / base_a, b / base_b, counts)


def _failed(a: SideLine, b: SideLine, name: str) -> tuple[Counts, Counts]:
    first, second = (
        Counts(line.by_slice[name].astype(float), _base_by_slice(line.by_slice, name))
        for line in (a, b)
        if line.by_slice
    )
    return first, second


def _base_by_slice(by_slice: Mapping[str, Any], name: str) -> Any:
    """Return what :meth:`.SideLine.base_of` returns, by slice."""
    base = by_slice["due"] - by_slice["unread"] if name in OF_READ else by_slice["due"]
    return base.astype(float)


# -- what differs ---------------------------------------------------------------------------------


class _Differences:
    """The figures of two sides, each with its chance and its interval."""

    def __init__(self, a: Side, b: Side, measures: list[_Measure], thresholds: Thresholds) -> None:
        self._a, self._b = a, b
        self._thresholds = thresholds
        self._measures = measures
        self._resampled: Resampled | None = None
        # In a canonical order, so that comparing B with A gives the same as A with B.
        self._is_swapped = _order(b) < _order(a)
        self._chances: list[Chance] | None = None
        if a.slices and b.slices:
            self._chances = chances([self._pair_of(measure) for measure in measures])
            slice_counts = (b.slices, a.slices) if self._is_swapped else (a.slices, b.slices)
            self._resampled = Resampled(*slice_counts)

    def changes(self, kind: str, *, is_worse: bool) -> list[dict[str, Any]]:
        """Return the lines that differ, sorted by the lower bound of the difference, descending."""
        by_line = self._by_line(
            lambda index, measure: (
                measure.is_latency == (kind == "latency")
                and measure.is_worse == is_worse
                and self._is_sure(index)
            )
        )
        ranked = sorted(by_line.items(), key=_rank, reverse=True)
        return self._changes(ranked, is_worse=is_worse)

    def maybe(self) -> list[dict[str, Any]]:
        """Return differences that are large enough but may be chance."""
        by_line = self._by_line(lambda index, _: not self._is_sure(index))
        # Lines of an API come before the lines of its clients, topics and brokers.
        ranked = sorted(by_line.items(), key=lambda item: _KINDS.index(item[0][0]) > 0)
        return self._changes(ranked, is_worse=False)

    def _by_line(
        self, is_selected: Callable[[int, _Measure], bool]
    ) -> dict[LineKey, list[dict[str, Any]]]:
        """Return the selected differences that are large enough, by line."""
        by_line: dict[LineKey, list[dict[str, Any]]] = {}
        for index, measure in enumerate(self._measures):
            if measure.matters(self._thresholds) and is_selected(index, measure):
                by_line.setdefault(measure.key, []).append(self._difference(index))
        return by_line

    def _changes(
        self, ranked: Iterable[tuple[LineKey, list[dict[str, Any]]]], *, is_worse: bool
    ) -> list[dict[str, Any]]:
        changes = [self._change(key, found, is_worse=is_worse) for key, found in ranked]
        return _folded(changes)

    def alike(self) -> int:
        """Return the number of lines without a difference that is large enough."""
        lines = {measure.key for measure in self._measures}
        return len(lines - {m.key for m in self._measures if m.matters(self._thresholds)})

    def _is_sure(self, index: int) -> bool:
        return self._chances is None or self._chances[index].among_all <= FALSE_ALARMS

    def _pair_of(self, measure: _Measure) -> Callable[[], tuple[Counts, Counts]]:
        assert measure.counts is not None
        return partial(_swapped, measure.counts) if self._is_swapped else measure.counts

    def _difference(self, index: int) -> dict[str, Any]:
        """Return a figure of both sides, its chance and, if it is no chance, its interval."""
        measure = self._measures[index]
        chance = self._chances[index] if self._chances else None
        bounds = self._interval(measure) if self._is_sure(index) else None
        difference: dict[str, Any] = {"measure": measure.name, "a": measure.a, "b": measure.b}
        if measure.is_latency:
            difference["ratio"] = round(measure.b / measure.a, 4) if measure.a else None
            rounded = [round(float(BIN_RATIO**bound), 4) for bound in bounds or ()]
        else:
            difference["difference"] = round(measure.b - measure.a, 6)
            rounded = [round(bound, 6) for bound in bounds or ()]
        return {
            **difference,
            **dict(zip(("low", "high"), rounded or (None, None), strict=True)),
            "chance": None if chance is None else chance.among_all,
            "chance_alone": None if chance is None else chance.alone,
        }

    def _interval(self, measure: _Measure) -> tuple[float, float] | None:
        if self._resampled is None:
            return None
        if measure.is_latency:
            first, second = self._histograms(measure.key)
            interval = self._resampled.log_ratio(first, second, QUANTILES[measure.name])
        else:
            interval = self._resampled.difference(*self._pair_of(measure)())
        if interval is None or not self._is_swapped:
            return interval
        return -interval[1], -interval[0]

    def _histograms(self, key: LineKey) -> list[Any]:
        """Return the latencies of both sides by slice and bin, in the order of the samples."""
        sides = [(side.slices, side.lines[key].latencies) for side in (self._a, self._b)]
        cells_of_sides = [(slices, cells) for slices, cells in sides if slices and cells]
        low = min(int(cells.bins.min()) for _, cells in cells_of_sides)
        width = max(int(cells.bins.max()) for _, cells in cells_of_sides) - low + 1
        histograms = []
        for slices, cells in reversed(cells_of_sides) if self._is_swapped else cells_of_sides:
            histogram = np.zeros((slices, width))
            np.add.at(histogram, (cells.slices, cells.bins - low), cells.counts)
            histograms.append(histogram)
        return histograms

    def _change(
        self, key: LineKey, differences: list[dict[str, Any]], *, is_worse: bool
    ) -> dict[str, Any]:
        line_a, line_b = self._a.lines[key], self._b.lines[key]
        return {
            **_identity(key),
            "requests": [line_a.requests, line_b.requests],
            "requests_per_s": [_rate(line_a.requests, self._a), _rate(line_b.requests, self._b)],
            "measures": differences,
            "as_much_for": [],
            "options": _options(key, differences) if is_worse else [],
        }


def _order(side: Side) -> tuple[Any, ...]:
    return side.slices or 0, side.extent["requests"], side.extent.get("first_time_ns") or 0


def _swapped(counts: Callable[[], tuple[Counts, Counts]]) -> tuple[Counts, Counts]:
    first, second = counts()
    return second, first


def _identity(key: LineKey) -> dict[str, Any]:
    kind, api, name = key
    return {"by": kind, "api": api, "name": name}


def _size(difference: dict[str, Any]) -> float:
    """Return the smallest size of a difference within its interval, if there is one."""
    if "ratio" in difference:
        worse = difference["b"] > difference["a"]
        bound = difference["low"] if worse else difference["high"]
        ratio = bound if bound is not None else difference["ratio"]
        if ratio is None:
            return float("inf")
        return float(ratio) if worse else 1 / max(float(ratio), 1e-9)
    low, high = difference["low"], difference["high"]
    if low is None or high is None:
        return abs(float(difference["difference"]))
    return float(low) if difference["b"] > difference["a"] else -float(high)


def _rank(item: tuple[LineKey, list[dict[str, Any]]]) -> tuple[float, int]:
    """Return the sort key; of lines with the same requests, that of the API comes first."""
    key, differences = item
    return max(map(_size, differences)), -_KINDS.index(key[0])


def _folded(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return changes without those that another change explains.

    A line that differs no more than the whole API, or has the same requests, is counted there.
    """
    independent: list[dict[str, Any]] = []
    for change in changes:
        for earlier in independent:
            if _covers(earlier, change):
                earlier["as_much_for"].append({"by": change["by"], "name": change["name"]})
                break
        else:
            independent.append(change)
    return independent


def _covers(earlier: dict[str, Any], change: dict[str, Any]) -> bool:
    if earlier["api"] != change["api"]:
        return False
    earlier_measures = {difference["measure"]: difference for difference in earlier["measures"]}
    is_same = earlier["requests"] == change["requests"]
    if not is_same and earlier["by"] != "api":
        return False
    return all(
        difference["measure"] in earlier_measures
        and (is_same or _overlap(earlier_measures[difference["measure"]], difference))
        for difference in change["measures"]
    )


def _overlap(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Return true if two figures may differ by the same amount, as far as known."""
    if a["low"] is None or b["low"] is None:
        return a["chance"] is not None
    return bool(a["low"] <= b["high"] and b["low"] <= a["high"])


def _options(key: LineKey, differences: Iterable[dict[str, Any]]) -> list[str]:
    """Return the options of ``kanalyze requests`` that show the rows."""
    kind, api, name = key
    words = [] if " " in api else ["--api", api]
    if kind in _OPTIONS and name is not None and not (kind == "topic" and name.startswith("id ")):
        words += [_OPTIONS[kind], name if kind == "broker" else _GLOB.sub(r"[\g<0>]", name)]
    slow = [difference["a"] for difference in differences if "ratio" in difference]
    if slow:
        words += ["--slower-than", f"{max(slow) / 1e6:.3g}ms"]
    elif any(difference["measure"] == "errors" for difference in differences):
        words.append("--errors")
    return words


# -- names that are new or gone, and the load -----------------------------------------------------


def _only_on_one_side(a: Side, b: Side) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return names that are new and names that are gone, with the probability of chance."""
    new = _missing(b, a)
    gone = _missing(a, b)
    test_count = 2 * (len(new) + len(gone))
    return (
        [_presence(b, a, kind, name, presence, test_count) for kind, name, presence in new],
        [_presence(a, b, kind, name, presence, test_count) for kind, name, presence in gone],
    )


def _missing(present: Side, elsewhere: Side) -> list[tuple[str, str, Presence]]:
    return [
        (kind, name, presence)
        for kind, names in present.names.items()
        if kind in elsewhere.names
        for name, presence in sorted(names.items(), key=lambda item: (-item[1].requests, item[0]))
        if name not in elsewhere.names[kind]
    ]


def _presence(
    present: Side, elsewhere: Side, kind: str, name: str, presence: Presence, test_count: int
) -> dict[str, Any]:
    """Return a name that only one side has.

    If it were equally frequent on both sides, each second in which it was seen would be on this
    side with a probability equal to this side's share of all seconds. ``test_count`` is the number
    of such tests (Bonferroni correction).
    """
    chance = None
    if presence.seconds is not None and present.seconds and elsewhere.seconds:
        share = present.seconds / (present.seconds + elsewhere.seconds)
        chance = min(1.0, test_count * share**presence.seconds)
    elif presence.seconds is not None:
        chance = 1.0
    return {
        "kind": kind,
        "name": name,
        "requests": presence.requests,
        "seconds": presence.seconds,
        "chance": chance,
        "may_be_chance": chance is not None and chance > FALSE_ALARMS,
    }


def _load(a: Side, b: Side, key: LineKey) -> dict[str, Any]:
    """Return the load of an API, which is not judged, but may explain differences."""
    lines = (a.lines[key], b.lines[key])
    return {
        "api": key[1],
        "requests_per_s": [
            _rate(line.requests, side) for line, side in zip(lines, (a, b), strict=True)
        ],
        "request_bytes": [_per_request(line.request_bytes, line.requests) for line in lines],
        "response_bytes": [_per_request(line.response_bytes, line.requests) for line in lines],
        "waited": [_per_request(line.waited, line.requests) for line in lines],
    }


def _per_request(amount: int | None, requests: int) -> float | None:
    return None if amount is None or not requests else round(amount / requests, 4)
