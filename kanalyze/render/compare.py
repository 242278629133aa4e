"""A comparison for people: as lines for a terminal, or as Markdown.

In: a comparison (see :mod:`kanalyze.queries.compare.comparison`). Out: lines, or text. It escapes
names from the wire.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from itertools import starmap
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.zones import UTC, Zone
from kanalyze.render.findings import found_lines, whom_texts
from kanalyze.render.header import condition_text
from kanalyze.render.layout import TableColumn
from kanalyze.render.lines import Line, fitted_table, markdown_table, markdown_text
from kanalyze.render.missing import failed_names, failed_texts
from kanalyze.render.units import (
    MISSING,
    ReportClock,
    bytes_text,
    captures_text,
    count_text,
    counted,
    duration_text,
    moment_text,
    percent_text,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_Item: TypeAlias = dict[str, Any]

_MAX_CHANGES = 20
_MOST_IN_VERDICT = 3
_MAX_NAMES = 12
_MAX_LOAD = 10
_CHANGES = (
    ("fails_more", "Fails more", "red"),
    ("slower", "Slower", "red"),
    ("fails_less", "Fails less", "green"),
    ("faster", "Faster", "green"),
)
_MEASURES = {
    "errors": "errors",
    "unanswered": "unanswered",
    "throttled": "throttled",
    "unread": "not read",
}


class _Table(NamedTuple):
    """A titled table, independent of the output format."""

    title: str
    style: str
    columns: tuple[TableColumn, ...]
    rows: Sequence[tuple[str, ...]]
    notes: dict[int, list[str]]
    """Lines to show below a row, by the row's number."""
    more: int = 0
    """Number of rows that are not shown."""


def compare_lines(comparison: _Item, width: int, zone: Zone = UTC) -> Iterator[Line]:
    """Yield the lines of a comparison. From ``width`` 60 on, no line is longer than ``width``."""
    for line in _lines(comparison, width, zone):
        yield from line.fitted(width)


def _lines(comparison: _Item, width: int, zone: Zone) -> Iterator[Line]:
    head = list(_head(comparison, zone))
    for text in head[:-1]:
        yield Line(text)
    yield Line()
    yield Line(head[-1], style="bold")
    for title, lines in _findings(comparison, zone):
        yield Line()
        yield Line(title, style="bold red")
        yield from lines
    for table in _tables(comparison):
        yield Line()
        yield Line(table.title, style=f"bold {table.style}".strip())
        cells = [[(text, "") for text in row] for row in table.rows]
        for number, line in enumerate(fitted_table(table.columns, cells, width)):
            yield line
            for note in table.notes.get(number - 1, ()):  # the first line has the titles
                yield Line(f"  {note}", style="dim")
        if table.more:
            yield Line(f"and {count_text(table.more)} more", style="dim")
    for title, text in _remarks(comparison):
        yield Line()
        yield Line(title, style="bold cyan")
        yield Line(text)


def compare_markdown(comparison: _Item, zone: Zone = UTC) -> str:
    """Return a comparison as GitHub-flavoured Markdown."""
    *head, verdict = _head(comparison, zone)
    parts = ["# Comparison", *(f"- {markdown_text(text)}" for text in head)]
    parts += [f"\n**{markdown_text(verdict)}**"]
    for title, lines in _findings(comparison, zone):
        parts += [f"\n## {title}\n", *(f"- {markdown_text(line.plain.strip())}" for line in lines)]
    for table in _tables(comparison):
        parts += [f"\n## {markdown_text(table.title)}\n"]
        parts += markdown_table(table.columns, table.rows)
        notes = [note for index in sorted(table.notes) for note in table.notes[index]]
        parts += ["", *(f"- {markdown_text(note)}" for note in notes)] if notes else []
        parts += [f"\nand {count_text(table.more)} more"] if table.more else []
    parts += [f"\n## {title}\n\n{markdown_text(text)}" for title, text in _remarks(comparison)]
    return "\n".join(parts) + "\n"


# -- the head -------------------------------------------------------------------------------------


def _head(comparison: _Item, zone: Zone) -> Iterator[str]:
    """Yield lines about both sides and the thresholds; the last line is the result."""
    yield f"A  {_side(comparison['a'], zone)}"
    yield f"B  {_side(comparison['b'], zone)}{_times_as_much(comparison)}"
    for name in ("a", "b"):
        if comparison[name]["filter"]:
            conditions = "; ".join(starmap(condition_text, comparison[name]["filter"].items()))
            yield f"only requests of {name.upper()} that match: {conditions}"
    settings = comparison["settings"]
    times, least = _times(settings["at_least"]), duration_text(settings["least_ns"])
    yield (
        f"a difference is: latency {times} as long and at least {least} longer, or {times} as many "
        f"failures and at least {_points(settings['least_share'])} of all requests more; or the "
        "reverse"
    )
    if comparison["tested"]:
        slices = " and ".join(
            f"{side['slices']} slices of {duration_text(round(side['slice_s'] * 1e9))}"
            for side in (comparison["a"], comparison["b"])
        )
        yield (
            f"and it must exceed chance: {count_text(comparison['differences_tested'])} figures "
            f"tested, over {slices}; probability of any false alarm: "
            f"{100 * settings['false_alarms']:g} %"
        )
    else:
        yield f"NOT TESTED FOR CHANCE: {comparison['not_tested']}"
    for text in failed_texts(comparison):
        yield f"WARNING: {text}"
    if comparison["limited"]:
        yield "there are too many names to compare: only the busiest are compared"
    yield _verdict(comparison)


def _side(side: _Item, zone: Zone) -> str:
    first_ns = side["first_time_ns"]
    when = "" if first_ns is None else f"{moment_text(first_ns, zone)} {zone.label(first_ns)}, "
    rate = side["requests_per_s"]
    per_s = "" if rate is None else f" in {duration_text(side['span_ns'])}, {_per_s(rate)}"
    kind = " (report)" if side["made_of"] == "report" else ""
    title = captures_text(side["captures"] or ())
    return f"{title}{kind}: {when}{counted(side['requests'], 'request')}{per_s}"


def _times_as_much(comparison: _Item) -> str:
    before, after = comparison["a"]["requests_per_s"], comparison["b"]["requests_per_s"]
    return f" ({_times(after / before)})" if before and after else ""


def _findings(comparison: _Item, zone: Zone) -> Iterator[tuple[str, list[Line]]]:
    """Yield a title and lines for the findings that only one side has."""
    for name, side, title in (
        ("new_findings", "b", "Found in B, not in A"),
        ("gone_findings", "a", "Found in A, not in B"),
    ):
        if comparison[name]:
            clock = ReportClock.of({"capture": comparison[side]}, zone)
            has_files = len(comparison[side]["captures"] or ()) > 1
            yield title, list(found_lines(comparison[name], clock, has_files=has_files))


def _found(comparison: _Item) -> Iterator[str]:
    """Yield how many findings only one side has, and the most severe of them."""
    for name, kind in (("new_findings", "new finding"), ("gone_findings", "finding gone")):
        findings = comparison[name]
        if findings:
            count = "" if len(findings) == 1 else f"{count_text(len(findings))} "
            kinds = kind if len(findings) == 1 else kind.replace("finding", "findings")
            first = ", ".join((shown(findings[0]["title"]), *whom_texts(findings[:1])))
            yield f"{count}{kinds}: {first}" + (", ..." if len(findings) > 1 else "")


def _verdict(comparison: _Item) -> str:
    words = [
        (len(comparison["fails_more"]), "fail more", "fails more"),
        (len(comparison["slower"]), "slower", "slower"),
        (len(comparison["fails_less"]), "fail less", "fails less"),
        (len(comparison["faster"]), "faster", "faster"),
        (len(_sure(comparison["new"])), "new", "new"),
        (len(_sure(comparison["gone"])), "gone", "gone"),
    ]
    found = list(_found(comparison))
    differences = [f"{count} {one if count == 1 else many}" for count, many, one in words if count]
    others = [f"{comparison['alike']} alike"]
    if comparison["may_be_chance"]:
        others.append(f"{len(comparison['may_be_chance'])} may differ by chance")
    if comparison["too_few"]:
        others.append(f"{len(comparison['too_few'])} with too few requests or too short a time")
    is_all = not failed_names(comparison, "comparison")
    if not comparison["judged"]:
        nothing = "nothing else" if found or differences else "nothing"
        differences.append(f"{nothing} certain, because too short to judge")
    nothing = "no other difference" if found else "no difference"
    nothing += "" if is_all else " in what could be compared"
    largest = [_figure(line) for line in _largest(comparison["too_few"])[:_MOST_IN_VERDICT]]
    most = f"; the largest differences of these: {', '.join(largest)}" if largest else ""
    return "; ".join([*found, ", ".join(differences) or nothing, f"{', '.join(others)}{most}"])


def _largest(too_few: Sequence[_Item]) -> list[_Item]:
    """Return the lines with a latency that differs much, the largest first, each API once.

    The lines of clients, topics and brokers repeat that of their API.
    """
    lines = [line for line in too_few if line["largest"] is not None]
    of_apis = [line for line in lines if line["by"] == "api"]
    return sorted(of_apis or lines, key=lambda line: -abs(math.log(line["largest"]["ratio"])))


def _figure(line: _Item) -> str:
    figure = line["largest"]
    times = f"{duration_text(figure['a'])} \u2192 {duration_text(figure['b'])}"
    subject = "" if line["by"] == "api" else f" of {_subject(line)}"
    return f"{shown(line['api'])}{subject} {figure['measure']} {times}"


# -- tables ---------------------------------------------------------------------------------------


def _tables(comparison: _Item) -> Iterator[_Table]:
    untested = "" if comparison["tested"] else " (may be chance: not tested)"
    for name, title, style in _CHANGES:
        if comparison[name]:
            yield _change_table(title + untested, style, comparison[name])
    for name, title in (("new", "New in B"), ("gone", "Gone: in A, not in B")):
        if comparison[name]:
            yield _name_table(title + untested, comparison[name])
    if comparison["may_be_chance"]:
        title = "Differs, but may be chance"
        yield _change_table(title, "cyan", comparison["may_be_chance"])
    load = [line for line in comparison["load"] if _is_other_load(line, comparison)]
    if load:
        yield _load_table(load)


def _change_table(title: str, style: str, changes: list[_Item]) -> _Table:
    columns = (
        TableColumn("API", least=12),
        TableColumn("for", least=14),
        TableColumn("figure"),
        TableColumn("A", right=True),
        TableColumn("B", right=True),
        TableColumn("B to A", right=True),
        TableColumn("95 % interval", right=True, rank=1),
        TableColumn("chance", right=True, rank=2),
    )
    rows: list[tuple[str, ...]] = []
    notes: dict[int, list[str]] = {}
    for change in changes[:_MAX_CHANGES]:
        for index, difference in enumerate(change["measures"]):
            subject = (shown(change["api"]), _subject(change)) if index == 0 else ("", "")
            rows.append((*subject, *_figures(difference)))
        texts = list(_notes(change))
        if texts:
            notes[len(rows) - 1] = texts
    return _Table(title, style, columns, rows, notes, max(len(changes) - _MAX_CHANGES, 0))


def _subject(change: _Item) -> str:
    if change["by"] == "api":
        return "all"
    return f"{change['by']} {shown(change['name'])}"


def _figures(difference: _Item) -> tuple[str, ...]:
    chance = MISSING if difference["chance"] is None else f"{100 * difference['chance']:.3g} %"
    if "ratio" in difference:
        return (
            difference["measure"],
            duration_text(difference["a"]),
            duration_text(difference["b"]),
            MISSING if difference["ratio"] is None else _times(difference["ratio"]),
            _range(difference, lambda ratio: f"{ratio:.3g}"),
            chance,
        )
    return (
        _MEASURES[difference["measure"]],
        percent_text(difference["a"]),
        percent_text(difference["b"]),
        _signed(difference["difference"]),
        _range(difference, _signed),
        chance,
    )


def _range(difference: _Item, text: Callable[[float], str]) -> str:
    if difference["low"] is None or difference["high"] is None:
        return MISSING
    return f"{text(difference['low'])} to {text(difference['high'])}"


def _notes(change: _Item) -> Iterator[str]:
    """Yield who else has the same difference, and the command that shows the rows."""
    others = change.get("as_much_for", ())
    kinds = Counter(other["by"] for other in others)
    if kinds:
        parts = []
        for kind, count in kinds.items():
            names = [other["name"] for other in others if other["by"] == kind]
            name = f" {shown(names[0])}" if count == 1 and kind != "api" else ""
            parts.append(f"{kind}{name}" if count == 1 else f"{count} {kind}s")
        yield f"the same difference for {', '.join(parts)}"
    if change.get("options"):
        yield f"kanalyze requests B {shown(shlex.join(change['options']), 300)}"


def _sure(names: Sequence[_Item]) -> list[_Item]:
    return [name for name in names if not name["may_be_chance"]]


def _name_table(title: str, names: list[_Item]) -> _Table:
    columns = (
        TableColumn("what"),
        TableColumn("name", least=20),
        TableColumn("requests", right=True),
        TableColumn("in seconds", right=True, rank=1),
        TableColumn(""),
    )
    ordered = sorted(names, key=lambda name: name["may_be_chance"])
    rows = [
        (
            name["kind"],
            shown(name["name"]),
            count_text(name["requests"]),
            count_text(name["seconds"]),
            "may be chance" if name["may_be_chance"] else "",
        )
        for name in ordered[:_MAX_NAMES]
    ]
    return _Table(title, "cyan", columns, rows, {}, max(len(names) - _MAX_NAMES, 0))


def _is_other_load(line: _Item, comparison: _Item) -> bool:
    """Return true if the rate, a mean size or the long polls of an API differ noticeably."""
    least = comparison["settings"]["at_least"]
    return any(
        None not in line[name] and max(line[name]) >= least * min(line[name])
        for name in ("requests_per_s", "request_bytes", "response_bytes")
    ) or (None not in line["waited"] and abs(line["waited"][0] - line["waited"][1]) >= 0.05)


def _load_table(load: list[_Item]) -> _Table:
    columns = (
        TableColumn("API", least=12),
        TableColumn("requests/s", right=True),
        TableColumn("bytes sent each", right=True),
        TableColumn("received each", right=True),
        TableColumn("waited on purpose", right=True, rank=1),
    )
    rows = [
        (
            shown(line["api"]),
            _both(line["requests_per_s"], lambda rate: f"{rate:.3g}"),
            _both(line["request_bytes"], lambda size: bytes_text(round(size))),
            _both(line["response_bytes"], lambda size: bytes_text(round(size))),
            _both(line["waited"], lambda share: f"{100 * share:.0f} %"),
        )
        for line in load[:_MAX_LOAD]
    ]
    title = "Other load (not judged, but it may explain differences)"
    return _Table(title, "cyan", columns, rows, {}, max(len(load) - _MAX_LOAD, 0))


def _both(pair: Sequence[float | None], text: Callable[[float], str]) -> str:
    texts = [MISSING if value is None else text(value) for value in pair]
    return texts[0] if texts[0] == texts[1] else " \u2192 ".join(texts)


def _remarks(comparison: _Item) -> Iterator[tuple[str, str]]:
    too_few = comparison["too_few"]
    if too_few:
        of_apis_and_clients = [line for line in too_few if line["by"] in ("api", "client")]
        names = [_short(line) for line in of_apis_and_clients or too_few]
        text = ", ".join(names[:_MAX_NAMES])
        if len(too_few) > _MAX_NAMES:
            text += f", and {count_text(len(too_few) - min(len(names), _MAX_NAMES))} more"
        yield "Too few requests, or too few slices of time, to judge", text


def _short(line: _Item) -> str:
    counts = " and ".join(map(count_text, line["requests"]))
    subject = "" if line["by"] == "api" else f" of {_subject(line)}"
    return f"{shown(line['api'])}{subject} ({counts})"


# -- numbers --------------------------------------------------------------------------------------


def _times(ratio: float) -> str:
    return f"{ratio:.3g}\u00d7"


def _per_s(rate: float) -> str:
    return f"{rate:.3g}/s" if rate < 1000 else f"{count_text(round(rate))}/s"


def _points(share: float) -> str:
    return f"{100 * share:.3g} %"


def _signed(share: float) -> str:
    return f"{100 * share:+.3g} %"
