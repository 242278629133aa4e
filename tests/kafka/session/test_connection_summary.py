"""Counts of connections."""

from __future__ import annotations

from kanalyze.kafka.session.connection_summary import ConnectionCounts


def test_tls_is_counted_apart_and_all_by_protocol() -> None:
    counts = ConnectionCounts()
    for protocol in ("tls", "http", "tls", "none"):
        counts.count(protocol)
    assert (counts.kafka, counts.tls, counts.other) == (0, 2, 2)
    assert counts.by_protocol == {"tls": 2, "http": 1, "none": 1}
