"""Where findings begin: the packet of the row at a finding's first time, and its file.

In: findings, and the tables in which they were found. Out: findings with ``first_packet`` and
``first_capture``.

A query whose first time is not that of a row says the packet itself: the least number, which says
little of several files, each of which begins with number 1. So a row with that number within the
finding's times is looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.model.tcp import Endpoint
from kanalyze.queries.files import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kanalyze.queries.database import Database
    from kanalyze.queries.finding import Finding

_PLACES = {
    "requests": ("request_packet", "request_start_ns", "request_start_ns"),
    "connections": ("first_packet", "start_ns", "end_ns"),
}
"""By table: the columns of the packet that a row begins in, of its time, and of the row's end."""
_TABLES = {"requests": "requests", "connections": "connections", "anomalies": "connections"}
"""By command of findings: the table whose rows they begin with."""
_WHO = ("client_id", "client_ip")


def with_first_packets(findings: Sequence[Finding], database: Database) -> list[Finding]:
    """Return findings that say their first packet and which capture it is in.

    Raises QueryError if the rows cannot be read.
    """
    lines = {
        table: list(_rows(table, of_table, database))
        for table in _PLACES.keys() & database.tables
        if (of_table := [each for each in findings if _begins_in(each) == table])
    }
    return [_placed(finding, lines.get(_begins_in(finding) or "", ())) for finding in findings]


def _begins_in(finding: Finding) -> str | None:
    """Return the table of the row that a finding begins with; None if it has no time."""
    return None if finding.first_time_ns is None else _TABLES[finding.command]


def _rows(
    table: str, findings: Iterable[Finding], database: Database
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table in which findings may begin."""
    packet, start, end = _PLACES[table]
    times = [str(each.first_time_ns) for each in findings if each.first_packet is None]
    places = [f"{start} IN ({', '.join(times)})"] if times else []
    places += [
        f"({packet} = {each.first_packet} AND {start} <= {each.last_time_ns or each.first_time_ns} "
        f"AND {end} >= {each.first_time_ns})"
        for each in findings
        if each.first_packet is not None
    ]
    sql = (
        f"SELECT capture, client_id, client_ip, broker_ip, broker_port, {packet} AS packet, "  # noqa: S608 - our own names
        f"{start} AS time_ns FROM {table} WHERE {packet} IS NOT NULL AND ({' OR '.join(places)})"
    )
    yield from database.answer(Query("first_packets", "", "", (), sql), {})


def _placed(finding: Finding, lines: Iterable[Mapping[str, Any]]) -> Finding:
    """Return a finding with the place of the first row that it may begin in."""
    name, value = (
        ("time_ns", finding.first_time_ns)
        if finding.first_packet is None
        else ("packet", finding.first_packet)
    )
    rows = (line for line in lines if line[name] == value and _concerns(finding, line))
    place = min(rows, key=_order, default=None)
    if place is None:
        return finding
    return finding._replace(first_capture=place["capture"], first_packet=place["packet"])


def _order(line: Mapping[str, Any]) -> tuple[int, str, int]:
    return line["time_ns"], line["capture"], line["packet"]


def _concerns(finding: Finding, line: Mapping[str, Any]) -> bool:
    """Return true if a row is of the client and the broker that a finding names, if any."""
    broker = str(Endpoint(line["broker_ip"], line["broker_port"]))
    of_row = {**{name: line[name] for name in _WHO}, "broker": broker}
    return all(finding.concerns.get(name, value) == value for name, value in of_row.items())
