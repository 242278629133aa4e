"""What is missing: what could not be read of a capture, and what failed queries would answer.

In: counts of a capture; reports as plain values, in which what a failed query would have answered
is null. Out: lines that say so; reports without nulls, for code that shows tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kanalyze.render.units import counted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_REASONS: Final = {
    "no_secret": "no secret in the key log",
    "no_hello": "the handshake was not captured, and no secret fits",
    "failed": "the secret in the key log does not fit",
    "unsupported": "the TLS version or cipher suite is not supported",
    "nothing_sealed": "closed before anything was encrypted",
    "memory_limit": "too many wait to be decrypted for --max-memory",
    "not_installed": "the capture has secrets, but cryptography is not installed: "
    "pip install 'kanalyze[tls]'",
}
_READ: Final = "decrypted"


def undecrypted_reason(outcome: str) -> str:
    """Return why a connection was not decrypted, from what became of it."""
    return _REASONS.get(outcome, "not read as TLS")


def undecrypted_text(tls_connections: int, outcomes: Mapping[str, int]) -> str | None:
    """Return how many connections with TLS could not be read, and why; None if all could.

    Args:
        tls_connections: connections whose TLS was not decrypted.
        outcomes: connections by what became of their TLS; empty without keys.
    """
    if not outcomes:
        all_of_them = counted(tls_connections, "TLS connection")
        text = f"{all_of_them} not decrypted: give a key log (--keylog FILE)"
        return text if tls_connections else None
    unread = {name: count for name, count in outcomes.items() if count and name != _READ}
    others = tls_connections - sum(unread.values())
    if others > 0:
        unread["other"] = others
    if not unread:
        return None
    count, read = sum(unread.values()), outcomes.get(_READ, 0)
    reasons = [
        f"{number:,} {undecrypted_reason(name)}"
        for name, number in sorted(unread.items(), key=lambda item: (-item[1], item[0]))
    ]
    of_all = f"{count:,} of {counted(count + read, 'TLS connection')}"
    return f"{of_all} not decrypted: {', '.join(reasons)}"


def unnamed_topics_text(never_named: int, named_late: int) -> str:
    """Return a message on topics that rows have only the id of; empty if there are none.

    Args:
        never_named: topics whose name is nowhere in the captures.
        named_late: topics whose name came after some of their rows, where it cannot be read twice.
    """
    parts = []
    if never_named:
        parts.append(
            f"{counted(never_named, 'topic')} known only by id: --topic-ids FILE names them, in "
            "lines 'ID NAME' (kafka-topics.sh --describe prints TopicId), or a capture with "
            "Metadata responses, which clients ask for as they connect"
        )
    if named_late:
        parts.append(
            f"{counted(named_late, 'topic')} named after their first requests: read the capture "
            "from a file, not from a pipe, to have the names everywhere"
        )
    return "; ".join(parts)


def no_kafka_text(packets: int, quality: Mapping[str, Any]) -> str:
    """Return a message that no Kafka was found, with the likely reasons."""
    undecrypted = undecrypted_text(quality["tls_connections"], quality["tls_outcomes"])
    has_none = not quality["connections"]
    hints = {
        "there are no packets": not packets and has_none,
        "there is no TCP connection": packets and has_none,
        undecrypted or "": undecrypted,
        "packets were cut short: capture whole ones (tcpdump -s 0)": quality["snapped_bytes"],
        "if a broker listens on port N, use --port N": quality["other_connections"],
    }
    return "; ".join(["no Kafka requests found", *(text for text, holds in hints.items() if holds)])


_LOST = {
    "finding": "not searched",
    "table": "not made",
    "page": "not made",
    "comparison": "not compared",
}
_LONGEST_REASON = 300
_NO_TIME = {"start_ns": None, "bucket_ns": 1}
_NOTHING: dict[str, Any] = {
    "throughput": {
        **_NO_TIME,
        "requests": [],
        "errors": [],
        "request_bytes": [],
        "response_bytes": [],
    },
    "latency": {**_NO_TIME, "p50": [], "p90": [], "p99": [], "max": []},
    "totals": None,
}
"""What a part of a report without any lines is; the others are lists."""


def failed_texts(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each query that failed: what is missing, and why."""
    for line in result.get("failed_queries", ()):
        reason = shown(line["reason"], _LONGEST_REASON)
        yield f"{line['kind']} {shown(line['name'])}: {_LOST[line['kind']]}, {reason}"


def failed_names(result: Mapping[str, Any], kind: str) -> list[str]:
    """Return the names of the failed queries of one kind, such as ``finding``."""
    return [line["name"] for line in result.get("failed_queries", ()) if line["kind"] == kind]


def without_nulls(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report in which tables of failed queries are empty, except ``totals``."""
    return {
        name: _NOTHING.get(name, []) if value is None else value for name, value in report.items()
    }
