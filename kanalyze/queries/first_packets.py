"""Where findings begin: of several captures, the file and the number of the packet.

In: findings, and the tables in which they were found. Out: findings with ``first_capture``.

A query of a finding knows the least number of a packet, which says little of several files, each of
which begins with number 1. So the row at the finding's first time is looked for, or else the one
with that number within its times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.model.tcp import Endpoint
from kanalyze.queries.engine import QueryError
from kanalyze.queries.files import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kanalyze.queries.database import Database
    from kanalyze.queries.engine import FailedQueries
    from kanalyze.queries.findings import Finding

__all__ = ["with_captures"]

_PLACES = {
    "requests": ("request_packet", "request_start_ns"),
    "connections": ("first_packet", "start_ns"),
}
"""By table: the columns of the packet that a row begins in."""
_WHO = ("client_id", "client_ip")


def with_captures(
    findings: Sequence[Finding],
    database: Database,
    captures: Sequence[str],
    failed: FailedQueries,
) -> list[Finding]:
    """Return findings that say which capture their first packet is in.

    Args:
        findings: findings of the tables.
        database: the tables.
        captures: the captures that the tables were made of.
        failed: the query, if it fails: then no finding says it.
    """
    if len(captures) <= 1:
        name = next(iter(captures), None)
        return [
            finding if finding.first_packet is None else finding._replace(first_capture=name)
            for finding in findings
        ]
    sought = list(filter(_has_place, findings))
    lines: list[dict[str, Any]] = []
    if sought:
        try:
            lines = database.answer(_query(sought, database.tables), {})
        except QueryError as error:
            failed.add("finding", error.query or "", error)
    return [_placed(finding, lines) if _has_place(finding) else finding for finding in findings]


def _has_place(finding: Finding) -> bool:
    return finding.first_packet is not None and finding.first_time_ns is not None


def _query(findings: Iterable[Finding], tables: Iterable[str]) -> Query:
    """Return the query of rows in which findings may begin."""
    times = ", ".join(str(finding.first_time_ns) for finding in findings)
    numbers = " OR ".join(
        f"(packet = {finding.first_packet} AND time_ns BETWEEN {finding.first_time_ns} "
        f"AND {finding.last_time_ns or finding.first_time_ns})"
        for finding in findings
    )
    rows = " UNION ALL ".join(
        f"SELECT capture, client_id, client_ip, broker_ip, broker_port, {packet} AS packet, "  # noqa: S608 - our own names
        f"{time} AS time_ns FROM {table} WHERE {packet} IS NOT NULL"
        for table, (packet, time) in _PLACES.items()
        if table in tables
    )
    sql = f"SELECT * FROM ({rows}) AS places WHERE time_ns IN ({times}) OR {numbers}"  # noqa: S608
    return Query("first_packets", "", "", (), sql)


def _placed(finding: Finding, lines: Iterable[Mapping[str, Any]]) -> Finding:
    """Return a finding with the place of the first row that it may begin in."""
    rows = [line for line in lines if _concerns(finding, line)]
    first = [line for line in rows if line["time_ns"] == finding.first_time_ns]
    numbered = [line for line in rows if line["packet"] == finding.first_packet]
    place = min(first or numbered, key=_order, default=None)
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
