"""Captures of conversations that are spread over seconds or minutes, and the findings in them.

In: what the lines of :mod:`tests.support.traffic` say, and when. Out: captures, findings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.api.tables import fill
from kanalyze.queries.database import Database
from kanalyze.queries.findings import findings_of
from kanalyze.runtime.pipeline import Analysis
from tests.support.findings import kinds_of
from tests.support.packets import BROKER, START_NS, Packet, pcap_file
from tests.support.traffic import Line

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.queries.finding import Finding

_APART_NS = 1_000
"""Between packets that are sent at one time."""


class Timeline:
    """Packets of many lines, each with its time."""

    def __init__(self) -> None:
        self._packets: list[bytes] = []
        self._times_ns: list[int] = []
        self._now_ns = START_NS

    def at(self, seconds: float) -> Timeline:
        """Let what the lines say from here on be sent at a time after the start."""
        self._stamp()
        self._now_ns = START_NS + round(seconds * 1e9)
        return self

    def line(
        self, client_port: int, client_ip: str = "10.0.0.1", broker: tuple[str, int] = BROKER
    ) -> Line:
        return Line(self._packets, client=(client_ip, client_port), broker=broker)

    def findings(self, folder: Path, *kinds: str) -> list[Finding]:
        """Return the findings of some kinds in the capture, which is written to a folder."""
        file = folder / "timeline.pcap"
        file.write_bytes(self.capture())
        asked = kinds_of(*kinds)
        tables = {table for kind in asked for table in kind.tables}
        with Database(max_memory_bytes=1 << 28, threads=1) as database:
            fill(database, Analysis([str(file)]), tables)
            return findings_of(database, asked)

    def capture(self) -> bytes:
        self._stamp()
        packets = map(Packet, self._packets, self._times_ns)
        return pcap_file(sorted(packets, key=_time_ns))

    def _stamp(self) -> None:
        for _ in range(len(self._packets) - len(self._times_ns)):
            self._times_ns.append(self._now_ns)
            self._now_ns += _APART_NS


def _time_ns(packet: Any) -> int:
    return int(packet.time_ns)
