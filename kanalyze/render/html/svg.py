"""Drawings of the page that need no script, so that they can be printed and mailed.

In: the model of a page and its sums. Out: SVG. ``page.js`` draws the same for the selection of a
reader; a test compares the two.

Colours are CSS classes: the style sheet defines them for light, dark and paper.
"""

from __future__ import annotations

import math
from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.render.html.sums import bin_position
from kanalyze.render.html.tables import label_of
from kanalyze.render.times import clock_text
from kanalyze.render.units import count_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["group_timeline", "heat_map", "latency_histogram", "parts_bars", "waterfall"]

_Model: TypeAlias = "Mapping[str, Any]"

WIDTH = 720
_LEFT, _RIGHT, _TOP, _AXIS = 62, 8, 8, 20
_HEIGHT = 150
_BINS_TOGETHER = 4
_LEVELS = 6
_MAX_BARS = 20
_MAX_GROUPS = 12
_LABEL, _AFTER, _BAR = 240, 70, 18
_MAX_LETTERS = 34
_FEW_MARKS = 3
_MANY_MARKS = 6


def _element(tag: str, text: str | None = None, **attributes: Any) -> str:
    words = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{words}/>" if text is None else f"<{tag}{words}>{escape(text)}</{tag}>"


def _svg(height: int, label: str, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        + "".join(parts)
        + "</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", class_: str = "lb") -> str:
    return _element("text", text, x=_at(x), y=_at(y), class_=class_, text_anchor=anchor)


def _at(number: float) -> str:
    """Return a coordinate with one decimal, or none if it is whole, as ``page.js`` writes it."""
    rounded = math.floor(number * 10 + 0.5) / 10
    return str(int(rounded)) if rounded == int(rounded) else str(rounded)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _nothing(label: str) -> str:
    return _svg(40, label, [_text(_LEFT, 24, "nothing to draw")])


def _round_values(first: int, last: int, ratio: float) -> list[tuple[int, float]]:
    """Return round numbers of ns in the range of the bins, each with its position among the bins.

    They are powers of ten and their negatives; powers of a thousand if these are many, and also
    their multiples by 2 and 5 if they are few.
    """
    marks: list[tuple[int, float]] = []
    for factors, step in (((1,), 3), ((1,), 1), ((1, 2, 5), 1)):
        values = [factor * 10**power for power in range(0, 19, step) for factor in factors]
        signed = [*(-value for value in reversed(values) if value > 1), *values]
        positions = [(value, bin_position(value, ratio)) for value in signed]
        marks = [(value, position) for value, position in positions if first <= position <= last]
        if len(marks) >= (_MANY_MARKS if step > 1 else _FEW_MARKS):
            break
    return marks


def latency_histogram(bins: Mapping[int, int], quantiles: Mapping[str, Any], ratio: float) -> str:
    """Return a histogram of latencies; from bar to bar, latency is multiplied by ``ratio``."""
    label = "Histogram of latency, logarithmic"
    if not bins:
        return _nothing(label)
    first, last = min(bins) - 1, max(bins) + 2
    step = (WIDTH - _LEFT - _RIGHT) / (last - first)
    most = max(bins.values())
    bottom = _TOP + _HEIGHT
    bars = "".join(
        f"M{_at(_LEFT + (bin_number - first) * step)} {bottom}"
        f"V{_at(bottom - _HEIGHT * bins[bin_number] / most)}"
        f"h{_at(max(step - 1, 0.5))}V{bottom}z"
        for bin_number in sorted(bins)
    )
    parts = [_element("path", d=bars, class_="bar")]
    parts += _latency_marks(first, last, step, ratio, bottom)
    for name in ("p50", "p99"):
        value = quantiles[name]
        if value:
            x = _LEFT + (bin_position(value, ratio) - first) * step
            parts.append(_element("path", d=f"M{_at(x)} {_TOP}V{bottom}", class_=f"mark {name}"))
            is_last, y = x > WIDTH - 40, _TOP + (9 if name == "p50" else 21)
            text_x, anchor = (x - 3, "end") if is_last else (x + 3, "start")
            parts.append(_text(text_x, y, name, anchor, "lb strong"))
    parts.append(_text(_LEFT - 6, _TOP + 9, count_text(most), "end"))
    parts.append(_text(_LEFT - 6, bottom, "0", "end"))
    parts.append(_element("path", d=f"M{_LEFT} {bottom}H{WIDTH - _RIGHT}", class_="axis"))
    return _svg(bottom + _AXIS, label, parts)


def _latency_marks(first: int, last: int, step: float, ratio: float, bottom: int) -> Iterable[str]:
    for value_ns, position in _round_values(first, last, ratio):
        x = _LEFT + (position - first) * step
        yield _element("path", d=f"M{_at(x)} {bottom}v4", class_="axis")
        yield _text(x, bottom + 16, duration_text(value_ns), "middle")


def heat_map(times_bins: Sequence[Mapping[int, int]], model: _Model) -> str:
    """Return a heat map: the number of requests by latency and by time."""
    label = "Heat map of latency over time"
    squares: Counter[tuple[int, int]] = Counter()
    for column, bins in enumerate(times_bins):
        for latency_bin, count in bins.items():
            squares[column, latency_bin // _BINS_TOGETHER] += count
    if not squares:
        return _nothing(label)
    low = min(row for _, row in squares)
    high = max(row for _, row in squares) + 1
    most = max(squares.values())
    wide = (WIDTH - _LEFT - _RIGHT) / len(times_bins)
    tall = _HEIGHT / (high - low)
    paths = [""] * _LEVELS
    for column, row in sorted(squares):
        count = squares[column, row]
        level = min(int(math.log(count) / math.log(most + 1) * _LEVELS), _LEVELS - 1)
        paths[level] += (
            f"M{_at(_LEFT + column * wide)} {_at(_TOP + (high - 1 - row) * tall)}"
            f"h{_at(wide)}v{_at(tall)}h{_at(-wide)}z"
        )
    parts = [
        _element("path", d=path, class_=f"heat{level}") for level, path in enumerate(paths) if path
    ]
    bottom = _TOP + _HEIGHT
    for value_ns, bin_number in _round_values(
        low * _BINS_TOGETHER, high * _BINS_TOGETHER, model["bin_ratio"]
    ):
        y = bottom - (bin_number / _BINS_TOGETHER - low) * tall
        parts.append(_element("path", d=f"M{_LEFT - 4} {_at(y)}h4", class_="axis"))
        parts.append(_text(_LEFT - 6, y + 4, duration_text(value_ns), "end"))
    parts += _time_marks(model, _LEFT, bottom)
    return _svg(bottom + _AXIS, label, parts)


def _time_marks(model: _Model, left: int, bottom: int) -> Iterable[str]:
    yield _element("path", d=f"M{left} {bottom}H{WIDTH - _RIGHT}", class_="axis")
    for part, anchor in ((0, "start"), (0.5, "middle"), (1, "end")):
        time_us = model["start_us"] + model["buckets"] * model["bucket_us"] * part
        text = clock_text(math.floor(time_us) * 1000, dated=model["dated"])
        yield _text(left + (WIDTH - _RIGHT - left) * part, bottom + 16, text, anchor)


def waterfall(slowest: Sequence[Mapping[str, Any]], classes: Sequence[str]) -> str:
    """Return the slowest exchanges as bars, each beginning with its first byte."""
    lines = [
        (f"{line['api_label']} {line['client_label']}", line["parts"], sum(line["parts"]))
        for line in slowest
    ]
    return _bars("Waterfall of the slowest requests", lines, classes, is_share=False)


def parts_bars(
    parts: Sequence[Mapping[str, Any]], all_parts: Sequence[Mapping[str, Any]], model: _Model
) -> str:
    """Return bars with the parts of the time of requests: of all, and by API and broker."""
    has_many_brokers = len({line["key"][1] for line in parts}) > 1
    lines = [("all", line["parts"], line["total"]) for line in all_parts]
    for line in parts:
        name = label_of(model, "api", line["key"][0])
        if has_many_brokers:
            name += f" {label_of(model, 'broker', line['key'][1])}"
        lines.append((name, line["parts"], line["total"]))
    return _bars("Shares of the time of requests", lines, model["parts"], is_share=True)


def _bars(
    label: str,
    lines: Sequence[tuple[str, Sequence[int], int]],
    classes: Sequence[str],
    *,
    is_share: bool,
) -> str:
    """Return a stacked bar for each line, with its name and total.

    If ``is_share``, all bars have the same length; otherwise the length is the total.
    """
    if not lines:
        return _nothing(label)
    lines = lines[:_MAX_BARS]
    most = max(1, *(sum(parts) for _, parts, _ in lines))
    drawn = []
    for number, (name, parts, took) in enumerate(lines):
        y, x = number * _BAR + 4, float(_LABEL)
        scale = (WIDTH - _LABEL - _AFTER) / (max(sum(parts), 1) if is_share else most)
        drawn.append(_text(_LABEL - 8, y + 11, _cut(name, _MAX_LETTERS), "end"))
        for class_, part in zip(classes, parts, strict=False):
            wide = max(part * scale, 0 if is_share or part <= 0 else 1)
            if wide:
                drawn.append(
                    _element(
                        "rect", x=_at(x), y=y, width=_at(wide), height=13, class_=f"w {class_}"
                    )
                )
            x += wide
        drawn.append(_text(x + 5, y + 11, duration_text(took), class_="lb strong"))
    return _svg(len(lines) * _BAR + 8, label, drawn)


def group_timeline(events: Sequence[Mapping[str, Any]], model: _Model) -> str:
    """Return joins, syncs and leaves over time, with a line for each group."""
    label = "Joins, syncs and leaves of consumer groups over time"
    groups = sorted({event["group"] for event in events})[:_MAX_GROUPS]
    if not groups:
        return _nothing(label)
    rows = {group: row for row, group in enumerate(groups)}
    wide = WIDTH - _RIGHT - _LABEL
    span_us = model["buckets"] * model["bucket_us"]
    parts = []
    for group, row in rows.items():
        name = label_of(model, "group", group)
        y = row * 26 + 8
        parts.append(_text(_LABEL - 8, y + 13, _cut(name, _MAX_LETTERS), "end"))
        parts.append(_element("path", d=f"M{_LABEL} {y + 9}H{WIDTH - _RIGHT}", class_="rail"))
    for event in events:
        if event["group"] not in rows:
            continue
        y = rows[event["group"]] * 26 + 8
        x = _LABEL + (event["at"] - model["start_us"]) / span_us * wide
        parts.append(_event(event, x, y, event["took"] / 1000 / span_us * wide))
    bottom = len(groups) * 26 + 10
    parts += _time_marks(model, _LABEL, bottom)
    return _svg(bottom + _AXIS, label, parts)


def _event(event: Mapping[str, Any], x: float, y: int, wide: float) -> str:
    """Return the mark of an event: joins above the line, syncs below, leaves across it."""
    class_ = f"e {event['kind']}" + (" bad" if event["is_error"] else "")
    if event["kind"] in ("join", "sync"):
        top = y if event["kind"] == "join" else y + 10
        return _element("rect", x=_at(x), y=top, width=_at(max(wide, 2)), height=8, class_=class_)
    if event["kind"] == "leave":
        return _element("path", d=f"M{_at(x - 4)} {y + 3}l8 12m0 -12l-8 12", class_=class_)
    return _element("path", d=f"M{_at(x)} {y}v18", class_=class_)
