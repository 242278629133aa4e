"""The tables of the view, as :mod:`kanalyze.spec.live_view` declares them.

In: a snapshot. Out: :data:`TABLES`, and lines of text. Texts from the wire are escaped.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import bounded_text
from kanalyze.live.window.row_measures import RowChoice, text_matches
from kanalyze.model.tcp import Endpoint
from kanalyze.render.layout import (
    TableColumn,
    cell_width,
    fitted,
    line_width,
    natural_widths,
    with_whole_ids,
)
from kanalyze.render.lines import Line, table_line
from kanalyze.render.units import (
    MISSING,
    api_label,
    api_text,
    at_least,
    bytes_text,
    clock_text,
    count_text,
    duration_text,
    listed,
    rate_text,
    shown,
    status_text,
)
from kanalyze.spec.live_view import LIVE_TABLES, OPENED_REQUESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from kanalyze.live.window.snapshot import Snapshot
    from kanalyze.queries.finding import Finding
    from kanalyze.spec.live_view import DeclaredLiveTable
    from kanalyze.spec.report import DeclaredColumn
    from kanalyze.spec.rows.requests import Row

_Shown: TypeAlias = "Callable[[Any, Snapshot], str]"


class LiveColumn(NamedTuple):
    """A column: its cells, and how it sorts its table."""

    column: TableColumn
    cell: _Shown
    order: Callable[[Any], int | str]
    """Returns the sort key: numbers are sorted in descending, texts in ascending order."""
    style: Callable[[Any], str] | str = ""
    min_width: int = 0
    """The minimum width, if there is room, so that columns do not move when numbers change."""


class OpenedLine(NamedTuple):
    """The requests that the user sees after opening a line of a table."""

    name: str
    """The name of the line, such as a client; escaped."""
    choice: RowChoice
    is_recent: bool = False
    """True for requests of the last minute, like the line itself; False for those of the window."""


class LiveTable(NamedTuple):
    """A table of the view."""

    name: str
    """The word on its tab."""
    title: str
    entries: Callable[[Snapshot], Sequence[Any]]
    columns: tuple[LiveColumn, ...]
    sorted_by: int
    """Index of the column that the table is sorted by at first."""
    texts: Callable[[Any], tuple[str | None, ...]]
    """Returns the texts of an entry that a filter searches."""
    key: Callable[[Any], Hashable]
    """Returns the identity of an entry, by which it is found in the next snapshot."""
    opened: Callable[[Any], OpenedLine | None]
    """Returns the requests of the entry with an identity; None for the entry of all others."""
    names_items: bool = False
    """True if a request may belong to several entries, for example to several topics."""
    finds: bool = False
    """True if the entries are findings."""


def sorted_entries(
    table: LiveTable, snapshot: Snapshot, *, pattern: str = "", by: int, reverse: bool = False
) -> list[Any]:
    """Return the entries that match a filter, sorted by a column, with ``other`` at the end.

    If the snapshot contains only matching requests, all its entries match. But in a table of topics
    or errors, only the entries whose own texts match are returned, if there are any: a matching
    request may name other topics too.
    """
    order = table.columns[by].order
    entries = [
        entry
        for entry in table.entries(snapshot)
        if text_matches(pattern, snapshot.with_names(table.texts(entry)))
    ]
    if snapshot.unfiltered is not None and not (entries and table.names_items):
        entries = list(table.entries(snapshot))
    # Equal entries keep the order of the snapshot.
    is_descending = bool(entries) and not isinstance(order(entries[0]), str)
    entries.sort(key=order, reverse=is_descending != reverse)
    return sorted(entries, key=_is_other)


def table_lines(
    table: LiveTable,
    entries: Sequence[Any],
    snapshot: Snapshot,
    width: int,
    *,
    by: int | None = None,
    reverse: bool = False,
    selected: int | None = None,
) -> Iterator[Line]:
    """Yield the column titles, with an arrow at the sorted one, and a line for each entry.

    No line is wider than ``width``; the line of the ``selected`` entry is padded to ``width``.
    """
    columns = [
        item.column._replace(
            title=_title(item.column.title, snapshot) + _ARROWS[reverse] * (index == by)
        )
        for index, item in enumerate(table.columns)
    ]
    cells = [[item.cell(entry, snapshot) for item in table.columns] for entry in entries]
    natural = natural_widths(columns, cells)
    padded_widths = [
        max(width_needed, item.min_width)
        for width_needed, item in zip(natural, table.columns, strict=True)
    ]
    has_room = line_width(padded_widths) <= width
    columns = with_whole_ids(columns, cells)
    widths = fitted(columns, padded_widths if has_room else natural, width)
    titles = [
        (column.title, "bold underline" if index == by else "bold")
        for index, column in enumerate(columns)
    ]
    yield from table_line(columns, widths, titles).fitted(width)
    for index, (entry, row) in enumerate(zip(entries, cells, strict=True)):
        styles = [_style(item, entry) for item in table.columns]
        line = table_line(columns, widths, list(zip(row, styles, strict=True)))
        for part in line.fitted(width):
            yield _marked(part, width) if index == selected else part


def _title(title: str, snapshot: Snapshot) -> str:
    """Return the title of a column, which names the time zone of its times."""
    return title.replace("(UTC)", f"({snapshot.zone.short_label(snapshot.time_ns)})")


def _marked(line: Line, width: int) -> Line:
    marked = Line()
    for text, style in line.parts:
        marked.append(text, f"{style} reverse".lstrip())
    marked.append(" " * (width - cell_width(line.plain)), "reverse")
    return marked


def _is_other(entry: Any) -> bool:
    return bool(getattr(entry, "other", False))


_ARROWS = ("\u2193", "\u2191")


def _style(column: LiveColumn, entry: Any) -> str:
    style = column.style
    return style if isinstance(style, str) else style(entry)


# -- cells ----------------------------------------------------------------------------------------


def _value(entry: Any, name: str) -> Any:
    return entry[name] if isinstance(entry, dict) else getattr(entry, name)


def _name(text: str | None) -> str:
    """Return a text from the wire, in quotes if it looks like our own ``(other topics)``."""
    name = shown(text)
    return f'"{name}"' if name.startswith("(") else name


def _api(entry: Any) -> str:
    return api_label(
        entry.api_name, entry.api_key, entry.wire, waited=entry.waited, name_text=_name
    )


def _versioned_api(entry: Any) -> str:
    key = _value(entry, "api_key")
    if key is None:
        return MISSING
    name = api_text(_value(entry, "api_name"), key, _name)
    return f"{name} v{_value(entry, 'api_version')}"


def _topic(entry: Any) -> str:
    return _name(entry.topic) if entry.topic is not None else f"(id {shown(entry.topic_id)})"


def _row_topics(row: Row) -> str:
    names = {item.topic or item.topic_id for item in row.partitions}
    names |= {item.topic for item in row.errors}
    topics = sorted(name for name in names if name is not None)
    return listed([shown(topic) for topic in topics], 3)


def _whom(finding: Finding) -> str:
    return ", ".join(shown(str(value), 48) for value in finding.concerns.values()) or MISSING


def finding_text(finding: Finding) -> str:
    """Return the figures of a finding and whom it concerns, escaped."""
    return f"{finding.title}: {_whom(finding)}: {shown(finding.what, _WORDS)}"


_WORDS = 400
"""Characters of a sentence."""
_TEXTS: dict[str, Callable[[Any], str]] = {
    "api": _api,
    "api and version": _versioned_api,
    "endpoint": lambda row: str(Endpoint(row.broker_ip, row.broker_port)),
    "error": lambda entry: f"{_name(entry.error_name)} {entry.error_code}",
    "sentence": lambda finding: shown(finding.what, _WORDS),
    "status": lambda entry: status_text(_value(entry, "status"), _value(entry, "error_name")),
    "topic": _topic,
    "topics": lambda entry: listed(
        [shown(name) for name in entry["topics"]], more=entry["more_topics"]
    ),
    "topics of a row": _row_topics,
    "whom": _whom,
}
"""Texts of several fields, by form."""
_TEXTS_OF_VALUES: dict[str, Callable[[Any], str]] = {"": shown, "name": _name, "as it is": str}


def _classic(entry: Any, field: str) -> int | None:
    """Return a count that is unknown for groups of the newer protocols."""
    count: int = getattr(entry, field)
    return count or (0 if entry.protocol in (None, "classic") else None)


def _longest_wait(entry: Any, _: str) -> int | None:
    waits = [wait for wait in (entry.longest_join_ns, entry.longest_sync_ns) if wait is not None]
    return max(waits, default=None)


_NUMBERS: dict[str, tuple[Callable[[Any, str], int | None], Callable[[int | None], str]]] = {
    "bytes": (_value, bytes_text),
    "count": (_value, count_text),
    "count of classic groups": (_classic, count_text),
    "duration": (_value, duration_text),
    "longest wait": (_longest_wait, duration_text),
}
"""By form: what is shown, and how it is written."""
_RATES = {"rate": "", "rate of bytes": "B", "rate of records": ""}
"""By form: the unit."""
_ADDRESSES = frozenset(("client_ip", "broker", "broker_ip", "connection", "concerns", "what"))
"""Fields with addresses, which have names beside them."""
_MEMBERS = "members"
_TIME = "time"
_RECORDS = "rate of records"
_NUMBER_WIDTH = 9
"""Wide enough for most numbers with units."""


def _column(declared: DeclaredColumn) -> LiveColumn:
    """Return a column with the functions that its form stands for."""
    form, field = declared.form, declared.field
    layout = TableColumn(
        declared.title,
        right=form in _RATES or form in _NUMBERS or form in (_MEMBERS, _TIME),
        least=declared.least,
        rank=declared.rank,
        may_have_ids=form == "topic",
    )
    if form in _RATES:
        return _rate(layout, declared)
    style: Callable[[Any], str] | str = declared.style
    if style == "alarm":
        style = partial(_alarm, field)
    if form == _TIME:
        return LiveColumn(
            layout,
            lambda entry, snapshot: clock_text(_value(entry, field), snapshot.zone),
            lambda entry: _lowest_if_null(_value(entry, field)),
            style,
            _NUMBER_WIDTH,
        )
    if form in _NUMBERS:
        amount, text = _NUMBERS[form]
        return LiveColumn(
            layout,
            lambda entry, _: text(amount(entry, field)),
            lambda entry: _lowest_if_null(amount(entry, field)),
            style,
            _NUMBER_WIDTH,
        )
    if form == _MEMBERS:
        return LiveColumn(layout, _members, attrgetter(field))
    if form in _TEXTS:
        cell = _TEXTS[form]
    else:
        cell = partial(_text_of_value, _TEXTS_OF_VALUES[form], field)
    if field in _ADDRESSES:
        return LiveColumn(layout, lambda entry, snapshot: snapshot.named(cell(entry)), cell, style)
    return LiveColumn(layout, lambda entry, _: cell(entry), cell, style)


def _rate(layout: TableColumn, declared: DeclaredColumn) -> LiveColumn:
    """Return a column of rates; those of records may be larger than known."""
    field, unit = declared.field, _RATES[declared.form]

    def cell(entry: Any, snapshot: Snapshot) -> str:
        text = rate_text(getattr(entry, field), snapshot.window_ns, unit)
        return at_least(text, known=declared.form != _RECORDS or entry.records_known)

    def style(entry: Any) -> str:
        if not getattr(entry, field):
            return "dim"
        return "red" if declared.style == "alarm" else ""

    return LiveColumn(layout, cell, attrgetter(field), style, _NUMBER_WIDTH)


def _alarm(field: str, entry: Any) -> str:
    return "red" if getattr(entry, field) else "dim"


def _text_of_value(text: Callable[[Any], str], field: str, entry: Any) -> str:
    return text(_value(entry, field))


def _members(entry: Any, _: Snapshot) -> str:
    return at_least(count_text(entry.members or None), known=entry.members_known)


def _lowest_if_null(number: int | None) -> int:
    return -(2**63) if number is None else number


# -- the requests of a line -----------------------------------------------------------------------


_OPENED_COLUMNS = (
    *("wire", "api_key", "api_name", "waited", "client_id", "client_ip", "group_id"),
    *("connection", "request_start_ns", "request_packet"),
)
"""Fields of lines that are columns of requests."""
_RECENT = frozenset(("slow", "groups", "lag", "findings"))
"""Tables of the last minute."""


def _opened(declared: DeclaredLiveTable, key: tuple[Any, ...]) -> OpenedLine | None:
    """Return the requests of a line; None for the line of others, and for a request."""
    if not declared.key or (declared.key[-1] == "other" and key[-1]):
        return None
    if declared.finds:
        named: dict[str, Any] = {column: bounded_text(str(value)) for column, value in key[1:]}
    else:
        named = dict(zip(declared.key, key, strict=True))
    columns = {name: named[name] for name in _OPENED_COLUMNS if name in named}
    if "broker" in named:
        ip, _, port = named["broker"].rpartition(":")
        columns |= {"broker_ip": ip.strip("[]"), "broker_port": int(port)}
    topic, error = (named.get("topic"), named.get("topic_id")), _opened_error(declared, named)
    # A group's requests about offsets name a topic, but not those that move it.
    has_topic = "topic" in named and declared.name not in ("errors", "lag")
    choice = RowChoice(
        columns,
        topic=topic if has_topic else None,
        error=error,
        requests_only=declared.name == "clients",
    )
    return OpenedLine(_opened_name(declared, key, named), choice, declared.name in _RECENT)


def _opened_error(declared: DeclaredLiveTable, named: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields that an error in an opened request has; None for any request."""
    if declared.name == "errors":
        fields = {"code": "error_code", "name": "error_name", "topic": "topic"}
        return {field: named[name] for field, name in fields.items()}
    return {"name": named["error_name"]} if "error_name" in named else None


def _opened_name(declared: DeclaredLiveTable, key: tuple[Any, ...], named: dict[str, Any]) -> str:
    match declared.name:
        case "APIs":
            is_named = named["api_name"] or named["api_key"] is None
            name = shown(named["api_name"]) if is_named else f"key {named['api_key']}"
            return f"{name} (waited)" if named["waited"] else name
        case "clients":
            return f"{shown(named['client_id'])} from {shown(named['client_ip'])}"
        case "errors":
            return f"{shown(named['error_name'])} to {shown(named['api_name'])}"
        case "findings":
            return str(key[0]).replace("_", " ")
        case "topics" if named["topic"] is None:
            return shown(named["topic_id"])
    return shown(key[0])


# -- the tables -----------------------------------------------------------------------------------


def _table(declared: DeclaredLiveTable) -> LiveTable:
    """Return a table with the functions that its declaration stands for."""
    columns = list(map(_column, declared.columns))
    if declared.others:
        columns[0] = _with_others(columns[0], declared.others)
    return LiveTable(
        declared.name,
        declared.title,
        partial(_entries, declared.entries.split(".")),
        tuple(columns),
        declared.sorted_by,
        partial(_texts, declared.texts),
        partial(_key, declared.key),
        partial(_opened, declared),
        declared.names_items,
        declared.finds,
    )


def _with_others(column: LiveColumn, others: str) -> LiveColumn:
    cell, order = column.cell, column.order
    return column._replace(
        cell=lambda entry, snapshot: others if entry.other else cell(entry, snapshot),
        order=lambda entry: others if entry.other else str(order(entry)),
    )


def _entries(path: Sequence[str], snapshot: Snapshot) -> Sequence[Any]:
    found: Any = snapshot
    for name in path:
        found = getattr(found, name)
        if found is None:
            return ()
    entries: Sequence[Any] = found
    return entries


def _texts(fields: Sequence[str], entry: Any) -> tuple[str | None, ...]:
    texts: list[str | None] = []
    for value in (_value(entry, field) for field in fields):
        if isinstance(value, dict):
            texts += map(str, value.values())
        elif isinstance(value, list):
            texts += value
        else:
            texts.append(value)
    return tuple(texts)


def _key(fields: Sequence[str], entry: Any) -> Hashable:
    """Return the fields that identify an entry; without such fields, the entry."""
    if not fields:
        return (entry,)
    values = [_value(entry, field) for field in fields]
    return tuple(
        item
        for value in values
        for item in (value.items() if isinstance(value, dict) else (value,))
    )


TABLES = tuple(map(_table, LIVE_TABLES))
"""The tables in the order of their tabs."""
REQUESTS = _table(OPENED_REQUESTS)
"""The table of the requests of an opened line."""
