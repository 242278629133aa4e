"""The tables of the view: their columns, orders and filtered fields.

In: a snapshot. Out: :data:`TABLES`, and lines of text. Texts from the wire are escaped.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import bounded_text
from kanalyze.live.window.row_choice import RowChoice, text_matches
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
from kanalyze.render.phrases import api_text, listed, status_text
from kanalyze.render.text import MISSING, shown
from kanalyze.render.times import clock_text
from kanalyze.render.units import at_least, bytes_text, count_text, duration_text, rate_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from kanalyze.live.window.snapshot import (
        ApiEntry,
        BrokerEntry,
        ClientEntry,
        ErrorEntry,
        GroupEntry,
        Snapshot,
        TopicEntry,
    )
    from kanalyze.queries.findings import Finding
    from kanalyze.spec.rows.requests import Row

__all__ = [
    "REQUESTS",
    "TABLES",
    "LiveColumn",
    "LiveTable",
    "OpenedLine",
    "finding_text",
    "sorted_entries",
    "table_lines",
]

_SlowEntry: TypeAlias = dict[str, Any]
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
        entry for entry in table.entries(snapshot) if text_matches(pattern, table.texts(entry))
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
        item.column._replace(title=item.column.title + _ARROWS[reverse] * (index == by))
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


_NUMBER_WIDTH = 9
"""Wide enough for most numbers with units."""


# -- columns --------------------------------------------------------------------------------------


def _name(text: str | None) -> str:
    """Return a text from the wire, in quotes if it looks like our own ``(other topics)``."""
    name = shown(text)
    return f'"{name}"' if name.startswith("(") else name


def _text(
    title: str, least: int, text: Callable[[Any], str], *, rank: int = 0, style: str = ""
) -> LiveColumn:
    return LiveColumn(
        TableColumn(title, least=least, rank=rank), lambda entry, _: text(entry), text, style
    )


def _number(
    title: str,
    amount: Callable[[Any], int | None],
    text: Callable[[int | None], str],
    rank: int = 0,
    *,
    style: Callable[[Any], str] | str = "",
) -> LiveColumn:
    return LiveColumn(
        TableColumn(title, right=True, rank=rank),
        lambda entry, _: text(amount(entry)),
        lambda entry: _lowest_if_null(amount(entry)),
        style,
        _NUMBER_WIDTH,
    )


def _rate(
    title: str, amount: Callable[[Any], int], unit: str = "", rank: int = 0, *, red: bool = False
) -> LiveColumn:
    def style(entry: Any) -> str:
        return ("red" if red else "") if amount(entry) else "dim"

    return LiveColumn(
        TableColumn(title, right=True, rank=rank),
        lambda entry, snapshot: rate_text(amount(entry), snapshot.window_ns, unit),
        amount,
        style,
        _NUMBER_WIDTH,
    )


def _lowest_if_null(number: int | None) -> int:
    return -(2**63) if number is None else number


_ERRORS = _rate("errors", lambda entry: entry.errors, red=True)
_TRAFFIC = (
    _rate("requests", lambda entry: entry.requests),
    _ERRORS,
    _rate("sent", lambda entry: entry.request_bytes, "B", rank=3),
    _rate("received", lambda entry: entry.response_bytes, "B", rank=2),
    _number("p50", lambda entry: entry.p50_ns, duration_text, rank=1),
    _number("p99", lambda entry: entry.p99_ns, duration_text),
)


# -- APIs -----------------------------------------------------------------------------------------


def _api(entry: ApiEntry) -> str:
    if entry.other:
        return "(other APIs)"
    if entry.api_key is None:
        return "(response alone)"
    name = api_text(entry.api_name, entry.api_key, _name)
    if entry.wire != "kafka":
        name = f"{name} {shown(entry.wire)}"
    return f"{name} (waited)" if entry.waited else name


def _opened_api(key: tuple[Any, ...]) -> OpenedLine | None:
    wire, api_key, api_name, waited, other = key
    if other:
        return None
    columns = {"wire": wire, "api_key": api_key, "api_name": api_name, "waited": int(waited)}
    name = shown(api_name) if api_name or api_key is None else f"key {api_key}"
    return OpenedLine(f"{name} (waited)" if waited else name, RowChoice(columns))


_APIS = LiveTable(
    "APIs",
    "Requests by API",
    lambda snapshot: snapshot.apis,
    (
        _text("API", 20, _api, style="bold"),
        *_TRAFFIC,
    ),
    1,
    lambda entry: (entry.api_name,),
    itemgetter(slice(5)),
    _opened_api,
)


# -- clients and topics ---------------------------------------------------------------------------


def _client(entry: ClientEntry) -> str:
    return "(other clients)" if entry.other else _name(entry.client_id)


def _opened_client(key: tuple[Any, ...]) -> OpenedLine | None:
    client_id, client_ip, other = key
    if other:
        return None
    choice = RowChoice({"client_id": client_id, "client_ip": client_ip}, requests_only=True)
    return OpenedLine(f"{shown(client_id)} from {shown(client_ip)}", choice)


_CLIENTS = LiveTable(
    "clients",
    "Busiest clients",
    lambda snapshot: snapshot.clients,
    (
        _text("client", 16, _client, style="bold"),
        _text("from", 13, lambda entry: shown(entry.client_ip), rank=4),
        *_TRAFFIC,
    ),
    2,
    lambda entry: (entry.client_id, entry.client_ip),
    itemgetter(slice(3)),
    _opened_client,
)


def _broker(entry: BrokerEntry) -> str:
    return "(other brokers)" if entry.other else shown(entry.broker)


def _broker_columns(broker: str) -> dict[str, str | int | None]:
    ip, _, port = broker.rpartition(":")
    return {"broker_ip": ip.strip("[]"), "broker_port": int(port)}


def _opened_broker(key: tuple[Any, ...]) -> OpenedLine | None:
    broker, other = key
    return None if other else OpenedLine(shown(broker), RowChoice(_broker_columns(broker)))


_BROKERS = LiveTable(
    "brokers",
    "Requests by broker",
    lambda snapshot: snapshot.brokers,
    (
        _text("broker", 16, _broker, style="bold"),
        *_TRAFFIC,
    ),
    1,
    lambda entry: (entry.broker,),
    itemgetter(slice(2)),
    _opened_broker,
)


def _topic(entry: TopicEntry) -> str:
    if entry.other:
        return "(other topics)"
    return _name(entry.topic) if entry.topic is not None else f"(id {shown(entry.topic_id)})"


def _records(title: str, amount: Callable[[TopicEntry], int], rank: int = 0) -> LiveColumn:
    def cell(entry: TopicEntry, snapshot: Snapshot) -> str:
        return at_least(rate_text(amount(entry), snapshot.window_ns), known=entry.records_known)

    return LiveColumn(
        TableColumn(title, right=True, rank=rank),
        cell,
        amount,
        lambda entry: "" if amount(entry) else "dim",
        _NUMBER_WIDTH,
    )


def _opened_topic(key: tuple[Any, ...]) -> OpenedLine | None:
    topic, topic_id, other = key
    if other:
        return None
    name = shown(topic if topic is not None else topic_id)
    return OpenedLine(name, RowChoice(topic=(topic, topic_id)))


_TOPICS = LiveTable(
    "topics",
    "Busiest topics",
    lambda snapshot: snapshot.topics,
    (
        LiveColumn(
            TableColumn("topic", least=16, may_have_ids=True),
            lambda entry, _: _topic(entry),
            _topic,
            "bold",
        ),
        _rate("bytes in", lambda entry: entry.produced_bytes, "B"),
        _rate("bytes out", lambda entry: entry.fetched_bytes, "B"),
        _records("records in", lambda entry: entry.produced_records, rank=1),
        _records("records out", lambda entry: entry.fetched_records, rank=2),
        _ERRORS,
    ),
    1,
    lambda entry: (entry.topic, entry.topic_id),
    itemgetter(slice(3)),
    _opened_topic,
    names_items=True,
)


# -- slowest --------------------------------------------------------------------------------------


def _slow_api(entry: _SlowEntry) -> str:
    return _versioned_api(entry["api_name"], entry["api_key"], entry["api_version"])


def _versioned_api(name: str | None, key: int | None, version: int | None) -> str:
    return MISSING if key is None else f"{api_text(name, key, _name)} v{version}"


def _slow_topics(entry: _SlowEntry) -> str:
    return listed([shown(name) for name in entry["topics"]], more=entry["more_topics"])


def _opened_slow(key: tuple[Any, ...]) -> OpenedLine | None:
    columns = dict(zip(("connection", "request_start_ns", "request_packet"), key, strict=True))
    return OpenedLine(shown(key[0]), RowChoice(columns), is_recent=True)


_SLOWEST = LiveTable(
    "slowest",
    "Slowest requests of the last minute",
    lambda snapshot: snapshot.slowest,
    (
        _number("latency", itemgetter("latency_ns"), duration_text),
        _text("API", 12, _slow_api, style="bold"),
        _text("client", 12, lambda entry: shown(entry["client_id"])),
        _text("topics", 10, _slow_topics),
        _text(
            "status", 10, lambda entry: status_text(entry["status"], entry["error_name"]), rank=2
        ),
        _number("at (UTC)", itemgetter("request_start_ns"), clock_text, rank=1),
        _text("connection", 24, lambda entry: shown(entry["connection"]), rank=3),
    ),
    0,
    lambda entry: (entry["api_name"], entry["client_id"], entry["connection"], *entry["topics"]),
    itemgetter("connection", "request_start_ns", "request_packet"),
    _opened_slow,
)


# -- groups and errors ----------------------------------------------------------------------------


def _group(entry: GroupEntry) -> str:
    return "(other groups)" if entry.other else _name(entry.group_id)


def _group_wait_ns(entry: GroupEntry) -> int | None:
    waits = [wait for wait in (entry.longest_join_ns, entry.longest_sync_ns) if wait is not None]
    return max(waits, default=None)


def _if_classic(
    amount: Callable[[GroupEntry], int],
) -> Callable[[GroupEntry], int | None]:
    """Return an amount that is unknown for groups of the newer protocols."""

    def known(entry: GroupEntry) -> int | None:
        return amount(entry) or (0 if entry.protocol in (None, "classic") else None)

    return known


def _group_members(entry: GroupEntry, _: Snapshot) -> str:
    return at_least(count_text(entry.members or None), known=entry.members_known)


def _opened_group(key: tuple[Any, ...]) -> OpenedLine | None:
    group_id, other = key
    if other:
        return None
    return OpenedLine(shown(group_id), RowChoice({"group_id": group_id}), is_recent=True)


_GROUPS = LiveTable(
    "groups",
    "Groups that rebalanced in the last minute",
    lambda snapshot: snapshot.groups,
    (
        _text("group", 14, _group, style="bold"),
        _text("protocol", 8, lambda entry: entry.protocol or MISSING, rank=4),
        LiveColumn(
            TableColumn("members", right=True, rank=3), _group_members, lambda entry: entry.members
        ),
        _number("rebalances", lambda entry: entry.rebalances, count_text),
        _number("longest wait", _group_wait_ns, duration_text),
        _number(
            "errors",
            lambda entry: entry.errors,
            count_text,
            style=lambda entry: "red" if entry.errors else "dim",
        ),
        _text("last error", 10, lambda entry: shown(entry.last_error_name), rank=1),
        _number("joins", _if_classic(lambda entry: entry.joins), count_text, rank=6),
        _number("leaves", _if_classic(lambda entry: entry.leaves), count_text, rank=7),
        _number("told to rejoin", _if_classic(lambda entry: entry.told), count_text, rank=5),
        _number("last (UTC)", lambda entry: entry.last_time_ns, clock_text, rank=2),
    ),
    10,
    lambda entry: (entry.group_id, entry.last_error_name),
    itemgetter(slice(2)),
    _opened_group,
)


def _error(entry: ErrorEntry) -> str:
    return "(other errors)" if entry.other else f"{_name(entry.error_name)} {entry.error_code}"


def _opened_error(key: tuple[Any, ...]) -> OpenedLine | None:
    api_name, code, name, topic, other = key
    if other:
        return None
    error = {"code": code, "name": name, "topic": topic}
    return OpenedLine(
        f"{shown(name)} to {shown(api_name)}", RowChoice({"api_name": api_name}, error=error)
    )


_ERROR_CODES = LiveTable(
    "errors",
    "Errors by code and topic",
    lambda snapshot: snapshot.errors,
    (
        _text("error", 20, _error, style="red"),
        _text("API", 10, lambda entry: shown(entry.api_name)),
        _text("topic", 10, lambda entry: shown(entry.topic)),
        _rate("rate", lambda entry: entry.occurrences),
        _number("last (UTC)", lambda entry: entry.last_time_ns, clock_text, rank=1),
    ),
    3,
    lambda entry: (entry.api_name, entry.topic, entry.error_name),
    itemgetter(slice(5)),
    _opened_error,
    names_items=True,
)


# -- findings -------------------------------------------------------------------------------------


def finding_text(finding: Finding) -> str:
    """Return the figures of a finding and whom it concerns, escaped."""
    return f"{finding.title}: {_whom(finding)}: {shown(finding.what, _WORDS)}"


_WORDS = 400
"""Characters of a sentence."""


def _whom(finding: Finding) -> str:
    return ", ".join(shown(str(value), 48) for value in finding.concerns.values()) or MISSING


def _finding_key(finding: Finding) -> tuple[Any, ...]:
    return finding.name, *finding.concerns.items()


def _opened_finding(key: tuple[Any, ...]) -> OpenedLine:
    name, *items = key
    concerns = {column: bounded_text(str(value)) for column, value in items}
    columns: dict[str, str | int | None] = {
        column: concerns[column]
        for column in ("client_id", "client_ip", "api_name", "group_id")
        if column in concerns
    }
    if "broker" in concerns:
        columns |= _broker_columns(concerns["broker"])
    topic = concerns.get("topic")
    error = {"name": concerns["error_name"]} if "error_name" in concerns else None
    choice = RowChoice(columns, topic=None if topic is None else (topic, None), error=error)
    return OpenedLine(name.replace("_", " "), choice, is_recent=True)


_FINDINGS = LiveTable(
    "findings",
    "Findings",
    lambda snapshot: () if snapshot.findings is None else snapshot.findings.findings,
    (
        _number("severity", lambda entry: entry.severity, count_text, rank=3),
        _text("finding", 14, lambda entry: entry.title, style="bold", rank=2),
        _text("whom", 10, _whom),
        _text("what", 16, lambda entry: shown(entry.what, _WORDS)),
        _number("last (UTC)", lambda entry: entry.last_time_ns, clock_text, rank=1),
    ),
    0,
    lambda entry: (entry.title, entry.what, *map(str, entry.concerns.values())),
    _finding_key,
    _opened_finding,
    finds=True,
)


# -- requests of a line ---------------------------------------------------------------------------


def _row_api(row: Row) -> str:
    return _versioned_api(row.api_name, row.api_key, row.api_version)


def _row_broker(row: Row) -> str:
    return str(Endpoint(row.broker_ip, row.broker_port))


def _row_topics(row: Row) -> str:
    names = {item.topic or item.topic_id for item in row.partitions}
    names |= {item.topic for item in row.errors}
    topics = sorted(name for name in names if name is not None)
    return listed([shown(topic) for topic in topics], 3)


REQUESTS = LiveTable(
    "requests",
    "Requests",
    lambda snapshot: () if snapshot.opened is None else snapshot.opened.rows,
    (
        _number("latency", lambda row: row.latency_ns, duration_text),
        _text("API", 12, _row_api, style="bold"),
        _text("status", 10, lambda row: status_text(row.status, row.error_name)),
        _number("at (UTC)", lambda row: row.began_ns, clock_text),
        _text("client", 10, lambda row: shown(row.client_id), rank=1),
        _text("broker", 14, _row_broker, rank=2),
        _text("topics", 10, _row_topics, rank=3),
        _text("group", 10, lambda row: shown(row.group_id), rank=6),
        _number("sent", lambda row: row.request_bytes, bytes_text, rank=5),
        _number("received", lambda row: row.response_bytes, bytes_text, rank=4),
    ),
    0,
    lambda row: (row.api_name, row.client_id),
    lambda row: row,
    lambda _: None,
)
"""The table of the requests of an opened line."""


TABLES: tuple[LiveTable, ...] = (
    *(_APIS, _CLIENTS, _TOPICS, _SLOWEST, _GROUPS, _ERROR_CODES, _BROKERS),
    _FINDINGS,
)
"""The tables in the order of their tabs."""
