"""Checks the types of the library: ``mypy`` reads this file, and it is never run.

A wrong type here is an error of mypy, and so is an unused ``ignore``: mypy must reject each line
that has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

if TYPE_CHECKING:
    import kanalyze

    for row in kanalyze.requests(["a.pcap"], api=[0, "Fetch"], port=9092, jobs=2):
        assert_type(row.latency_ns, int | None)
    assert_type(kanalyze.report("a.pcap", topic=None), kanalyze.Report)
    assert_type(kanalyze.report("a.pcap")["totals"], Any)
    kanalyze.records("a.pcap", values=True).to_arrow()
    for message in kanalyze.decode("a.pcap", errors=True):
        assert_type(message, dict[str, Any])
    kanalyze.requests("a.pcap", slower_than=50)  # type: ignore[arg-type]
    kanalyze.report("a.pcap", tpoic="x")  # type: ignore[call-arg]
    kanalyze.connections("a.pcap", topic="x")  # type: ignore[call-arg]
