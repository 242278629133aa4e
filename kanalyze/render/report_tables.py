"""The tables of a report for people: which lines they have, and in which order.

In: a summary (see :mod:`kanalyze.queries.report`), and the figure by which lines are sorted. Out:
cells as texts with styles. What a table's columns are is declared in :mod:`kanalyze.spec.report`.

Every figure is copied from the summary. A table that would repeat another is left out: with a
single client there is no table of clients by API.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.zones import UTC, Zone
from kanalyze.model.tcp import Endpoint
from kanalyze.render.layout import TableColumn
from kanalyze.render.units import (
    MISSING,
    UTC_CLOCK,
    ReportClock,
    api_label,
    api_text,
    bytes_text,
    count_text,
    duration_text,
    listed,
    moment_text,
    packets_text,
    per_mille_text,
    records_text,
    shown,
    status_text,
)
from kanalyze.render.wireshark import filter_lines
from kanalyze.spec.report import (
    AFTER_CHARTS,
    BEFORE_CHARTS,
    LATENCY_SUMMARY,
    OVER_TIME,
    PARTS,
    SECTIONS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kanalyze.spec.fields import JsonField
    from kanalyze.spec.report import DeclaredColumn, DeclaredTable

Item: TypeAlias = dict[str, Any]

_SECONDS = 19
"""Number of characters of a time without the fraction of its second."""
_LARGE_PER_MILLE = 500


class Cell(NamedTuple):
    """A column of a table in the report."""

    column: TableColumn
    text: Callable[[Item], str]
    style: Callable[[Item], str]


def cells_of(
    table: DeclaredTable,
    lines: Sequence[Item],
    clock: ReportClock = UTC_CLOCK,
    *,
    is_wide: bool,
    has_files: bool = False,
) -> list[Cell]:
    """Return the columns of a table that are shown for these lines.

    Args:
        table: the declaration of the table.
        lines: all lines of the table.
        clock: writes times.
        is_wide: whether there is room for the columns of wide terminals.
        has_files: whether there are several captures, so that a packet needs its file.
    """
    fields = {field.name: field for field in table.fields}
    shown_columns = [
        column for column in table.columns if _is_shown(column, lines, is_wide, has_files)
    ]
    cells = [_cell(column, fields, clock) for column in shown_columns]
    if table.others:
        first = cells[0]
        cells[0] = first._replace(text=_with_others(first.text, table.others))
    return cells


def _with_others(text: Callable[[Item], str], others: str) -> Callable[[Item], str]:
    return lambda item: others if item["other"] else text(item)


def _is_shown(
    column: DeclaredColumn, lines: Sequence[Item], is_wide: bool, has_files: bool
) -> bool:
    match column.when:
        case "any":
            return any(_value(line, column.field) not in (0, []) for line in lines)
        case "known":
            return any(_value(line, column.field) is not None for line in lines)
        case "several kinds":
            return len({_value(line, column.field) for line in lines}) > 1
        case "several":
            return len({_FORMS[column.form](line) for line in lines}) > 1
        case "files":
            return has_files
        case "wide":
            return is_wide
        case "narrow":
            return not is_wide
        case _:
            return True


def _cell(column: DeclaredColumn, fields: Mapping[str, JsonField], clock: ReportClock) -> Cell:
    path = column.field.partition("+")[0]
    field = _field_at(fields, path)
    if column.form in _FORMS:
        text, right = _FORMS[column.form], column.form in _RIGHT_FORMS
    else:
        text, right = _text_of(column, field, fields, clock), field.kind in _NUMBERS
    layout = TableColumn(
        column.title,
        right=right,
        least=column.least,
        rank=column.rank,
        may_have_ids=column.form in ("topic", "text or id"),
    )
    style = _STYLES.get(column.style)
    return Cell(
        layout,
        text,
        (lambda _: column.style) if style is None else lambda item: style(item, column.field),
    )


def _field_at(fields: Mapping[str, JsonField], path: str) -> JsonField:
    """Return the field that a path like ``latency_ns.p50`` names."""
    name, _, inner = path.partition(".")
    field = fields[name]
    if not inner:
        return field
    members = LATENCY_SUMMARY.fields if field.kind.startswith("@") else field.fields
    return _field_at({member.name: member for member in members}, inner)


def _value(item: Item, path: str) -> Any:
    """Return the value at a path, or the sum of the values at several."""
    if "+" in path:
        return sum(_value(item, each) for each in path.split("+"))
    value: Any = item
    for name in path.split("."):
        value = value[name]
    return value


_NUMBERS = ("count", "integer", "time")
_UNITS = {"": count_text, "B": bytes_text, "ns": duration_text, "per mille": per_mille_text}


def _text_of(
    column: DeclaredColumn, field: JsonField, fields: Mapping[str, JsonField], clock: ReportClock
) -> Callable[[Item], str]:
    """Return the function that writes a field as its kind and its unit say."""
    path = column.field
    if f"{path}_known" in fields:
        return lambda item: _records(item[path], item[f"{path}_known"])
    if field.kind == "time":
        return lambda item: clock.text(item[path])
    if field.kind == "texts":
        return lambda item: listed([shown(text) for text in item[path]], more=item[f"more_{path}"])
    if field.kind == "text":
        return lambda item: shown(item[path])
    unit = _UNITS[column.form or field.unit]
    return lambda item: unit(_value(item, path))


def _records(count: int | None, known: bool) -> str:
    return MISSING if count is None else records_text(count, known=known)


# -- cells of several fields ----------------------------------------------------------------------


def _topic(item: Item) -> str:
    return shown(item["topic"]) if item["topic"] is not None else f"id {shown(item['topic_id'])}"


def _api(item: Item) -> str:
    waited = bool(item.get("is_waited"))
    return api_label(item["api_name"], item["api_key"], item["wire"], waited=waited)


def _versions(item: Item) -> str:
    """Return the versions of an API, the most frequent first."""
    counts = sorted(item["versions"].items(), key=lambda version: -version[1])
    return ", ".join(
        f"{'v' if version.isdigit() else ''}{version}: {count_text(count)}"
        for version, count in counts
    )


def _large_parts(item: Item) -> list[str]:
    """Return the parts of a request's time, the largest first, without those below 1 %."""
    total_ns = item["total_time_ns"]
    parts = [(item[part.name], part.title) for part in PARTS if item[part.name] and total_ns]
    percents = [(round(100 * duration_ns / total_ns), title) for duration_ns, title in parts]
    ordered = sorted(percents, key=lambda part: -part[0])
    return [f"{title} {percent} %" for percent, title in ordered if percent]


_FORMS: Mapping[str, Callable[[Item], str]] = {
    "acknowledged": lambda item: _records(
        item["acknowledged_records"], item["produced_records_known"]
    ),
    "api": _api,
    "api and version": lambda item: (
        f"{api_text(item['api_name'], item['api_key'])} v{item['api_version']}"
    ),
    "endpoint": lambda item: (
        item.get("broker") or str(Endpoint(item["broker_ip"], item["broker_port"]))
    ),
    "error": lambda item: f"{shown(item['error_name'])} {item['error_code']}",
    "largest part": lambda item: ", ".join(_large_parts(item)[:1]) or MISSING,
    "other parts": lambda item: ", ".join(_large_parts(item)[1:]) or MISSING,
    "packets": lambda item: packets_text(item["request_packet"], item["response_packet"]),
    "status": lambda item: status_text(item["status"], item["error_name"]),
    "text or id": lambda item: shown(item["topic"]),
    "topic": _topic,
    "valid until": lambda item: moment_text(item["not_after_ns"])[:_SECONDS],
    "versions": _versions,
}
_RIGHT_FORMS = ("acknowledged", "packets", "valid until")


def _if_large(item: Item, path: str) -> str:
    per_mille = _value(item, path)
    return "bold" if per_mille is not None and per_mille >= _LARGE_PER_MILLE else ""


_STYLES: Mapping[str, Callable[[Item, str], str]] = {
    "alarm": lambda item, path: "red" if item[path] else "dim",
    "expired": lambda item, _: "red" if item["expired"] else "dim",
    "most": _if_large,
}


_WIDE = 100


class TableOrder(NamedTuple):
    """How a report is laid out: its sections, the lines of tables, the time zone."""

    sort: str | None = None
    """One of :data:`~kanalyze.spec.options.SORTS`; None for the order in the summary."""
    limit: int | None = None
    """Number of lines; None for the default of each table."""
    sections: Sequence[str] | None = None
    """Names of sections; None for the default of the format."""
    zone: Zone = UTC
    """The time zone of times."""
    inputs: Sequence[str] | None = None
    """The captures as the user named them, for commands; None for the names in the report."""


class ReportTable(NamedTuple):
    """A titled table, independent of the output format."""

    name: str
    title: str
    columns: tuple[TableColumn, ...]
    rows: list[list[tuple[str, str]]]
    """Rows of cells, each cell with its style."""
    more: int
    """Number of lines that are not shown."""
    notes: Sequence[str] = ()
    """Lines below the table."""


def sections_of(summary: Item, order: TableOrder) -> dict[str, int]:
    """Return the sections that have something to show, in order, with their numbers of lines."""
    counts = {table.name: len(_lines(table, summary, order)) for table in _TABLES}
    counts[OVER_TIME] = len(summary["throughput"]["requests"])
    return {name: counts[name] for name in SECTIONS if counts[name]}


_TABLES = (*BEFORE_CHARTS, *AFTER_CHARTS)


def report_tables(
    summary: Item,
    order: TableOrder,
    width: int | None = None,
    most: Mapping[str, int] | None = None,
) -> tuple[list[ReportTable], list[ReportTable]]:
    """Return the tables to show before the charts, and those to show after them.

    Tables without lines are left out. For a ``width`` below 100 there are fewer columns.

    Args:
        summary: see :mod:`kanalyze.queries.report`.
        order: which tables, and the order of their lines.
        width: of the terminal; None if nothing has to be left out.
        most: the number of lines of each table; by default that of ``order`` or of the table.
    """
    is_wide = width is None or width >= _WIDE

    def filled(tables: Iterable[DeclaredTable]) -> list[ReportTable]:
        chosen = [
            table for table in tables if order.sections is None or table.name in order.sections
        ]
        lines_of = ((table, _lines(table, summary, order)) for table in chosen)
        return [
            _table(table, lines, summary, order, is_wide=is_wide, most=(most or {}).get(table.name))
            for table, lines in lines_of
            if lines
        ]

    return filled(BEFORE_CHARTS), filled(AFTER_CHARTS)


def _table(
    table: DeclaredTable,
    lines: Sequence[Item],
    summary: Item,
    order: TableOrder,
    *,
    is_wide: bool,
    most: int | None,
) -> ReportTable:
    title = table.title or f"Worst times, {_span_text(summary)} each, by {_worst_by(order)}"
    if _is_sorted(table, lines, order):
        title = f"{table.sorted_title}, by {order.sort}"
    most = most or order.limit or table.most
    has_files = len(summary["capture"]["captures"]) > 1
    clock = ReportClock.of(summary, order.zone)
    cells = cells_of(table, lines, clock, is_wide=is_wide, has_files=has_files)
    return ReportTable(
        table.name,
        title,
        tuple(cell.column for cell in cells),
        [[(cell.text(line), cell.style(line)) for cell in cells] for line in lines[:most]],
        max(len(lines) - most, 0),
        _display_filters(lines[:most], of_several=has_files) if table.name == "slowest" else (),
    )


def _is_sorted(table: DeclaredTable, lines: Sequence[Item], order: TableOrder) -> bool:
    return bool(table.sorted_title and order.sort and _has_figure(lines, order.sort))


def _display_filters(lines: Sequence[Item], *, of_several: bool) -> list[str]:
    """Return the display filters of the packets of requests, for Wireshark."""
    sides = ("request_packet", "response_packet")
    packets = [(line["capture"], line[side]) for line in lines for side in sides]
    return [f"Wireshark: {line}" for line in filter_lines(packets, of_several=of_several)]


# -- the lines ------------------------------------------------------------------------------------


def _lines(table: DeclaredTable, summary: Item, order: TableOrder) -> list[Item]:
    """Return the lines of a table in their order; none if they would repeat another table."""
    lines = _unsorted(table, summary, order)
    if order.sort and _is_sorted(table, lines, order):
        lines = _ordered(lines, order.sort)
    if table.name == "apis":
        # APIs are sorted by their whole figures, so that the two lines of an API stay together.
        lines = list(chain.from_iterable(map(_api_lines, lines)))
    return lines


def _unsorted(table: DeclaredTable, summary: Item, order: TableOrder) -> list[Item]:
    if table.name == "worst_times":
        return _worst_times(summary, order, table.most)
    if table.name == "versions":
        return [api for api in summary["apis"] if api["versions"]]
    if table.name == "flows":
        return _flow_map(summary["flows"])
    lines: list[Item] = summary[table.name]
    if table.name == "latency_parts":
        return sorted(lines, key=lambda line: -_whole_time(line))
    if table.name == "client_apis" and len({line["client_id"] for line in lines}) < 2:
        return []
    if table.name == "partitions":
        topics = {(line["topic"], line["topic_id"]) for line in lines}
        return [] if len(topics) == len(lines) else lines
    return lines


_MOST_ENDS = 8
"""Producers and consumers that the line of a topic names."""


def _flow_map(flows: Iterable[Item]) -> list[Item]:
    """Return a line for each topic, from producers to consumers; flows have most bytes first."""
    topics: dict[tuple[str | None, str | None], Item] = {}
    for flow in flows:
        line = topics.setdefault(
            (flow["topic"], flow["topic_id"]),
            {
                **{name: flow[name] for name in ("topic", "topic_id")},
                "producers": [],
                "bytes_in": 0,
                "consumers": [],
                "bytes_out": 0,
            },
        )
        names, amount = _FLOW_ENDS[flow["direction"]]
        line[names].append(flow["group_id"] or flow["client_id"])
        line[amount] += flow["bytes"]
    for line in topics.values():
        for names, _ in _FLOW_ENDS.values():
            line[f"more_{names}"] = len(line[names]) > _MOST_ENDS
            del line[names][_MOST_ENDS:]
    return sorted(topics.values(), key=lambda line: -line["bytes_in"] - line["bytes_out"])


_FLOW_ENDS = {"produce": ("producers", "bytes_in"), "fetch": ("consumers", "bytes_out")}


def _api_lines(api: Item) -> Iterator[Item]:
    """Yield the line of an API, and a line for its requests that waited on purpose."""
    waited = api["waited"]
    if not waited["requests"]:
        yield api
        return
    if api["requests"] > waited["requests"]:
        not_waited = {
            name: None if api[name] is None else api[name] - (waited[name] or 0)
            for name in _SEPARATE_SUMS
        }
        yield {**api, **not_waited}
    # A response that was not read shows no wait.
    yield {**api, **waited, "unread": 0, "is_waited": True}


_SEPARATE_SUMS = ("requests", "errors", "request_bytes", "response_bytes", "record_count")


def _whole_time(line: Item) -> int:
    """Return the approximate total time of all requests of a line in ns."""
    return int(line["requests"]) * int(line["total_time_ns"]["mean"])


def _worst_times(summary: Item, order: TableOrder, most: int) -> list[Item]:
    """Return the worst spans of time, by p99 unless ``--sort`` names another figure."""
    sort, spans = _worst_by(order), _spans(summary)
    if len(spans) < 2:
        return []
    worst = [span for span in _ordered(spans, sort) if _figure(span, sort)]
    return worst[: order.limit or most]


def _worst_by(order: TableOrder) -> str:
    return order.sort or "p99"


def _span_text(summary: Item) -> str:
    return duration_text(summary["throughput"]["bucket_ns"])


def _spans(summary: Item) -> list[Item]:
    """Return the spans of time that have requests, each as a line."""
    amounts, latency = summary["throughput"], summary["latency"]
    names = [name for name in amounts if name not in ("start_ns", "bucket_ns")]
    quantiles = [name for name in latency if name not in ("start_ns", "bucket_ns")]
    lines = [
        {
            "start_ns": amounts["start_ns"] + number * amounts["bucket_ns"],
            **{name: amounts[name][number] for name in names},
            **{name: latency[name][number] for name in quantiles},
        }
        for number in range(len(amounts["requests"]))
    ]
    return [line for line in lines if any(line[name] for name in names)]


# -- the order of lines ---------------------------------------------------------------------------

_FIGURES = {
    "requests": ("requests", "produce_requests", "fetch_requests"),
    "errors": ("errors",),
    "bytes": ("request_bytes", "response_bytes", "produced_bytes", "fetched_bytes", "bytes"),
}
"""By figure: the fields of a line that are added up, as far as the line has them."""


def _figure(item: Item, sort: str) -> int | None:
    """Return the figure that a line is sorted by; None if it has no such figure."""
    if sort in _FIGURES:
        amounts = [item[name] for name in _FIGURES[sort] if item.get(name) is not None]
        return sum(amounts) if amounts else None
    figure: int | None = item.get("latency_ns", item).get(sort)
    return figure


def _has_figure(items: Iterable[Item], sort: str) -> bool:
    return any(_figure(item, sort) is not None for item in items)


def _ordered(items: Iterable[Item], sort: str) -> list[Item]:
    """Return lines in descending order, then lines without a figure, then the sum of others."""

    def sort_key(item: Item) -> tuple[bool, bool, int]:
        figure = _figure(item, sort)
        return item.get("other", False), figure is None, -(figure or 0)

    return sorted(items, key=sort_key)
