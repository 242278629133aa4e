"""The metrics that ``kanalyze live --metrics`` serves about itself."""

from __future__ import annotations

import re
import urllib.request

from tests.support.waiting import LONG_S

_SERVED = re.compile(r"kanalyze: metrics: (http:\S+)\n")
_PACKETS = re.compile(r"^kanalyze_capture_packets_total ([0-9.e+]+)$", re.MULTILINE)


def served_at(line: str) -> str | None:
    """The address of metrics in a line that the command printed; None for other lines."""
    found = _SERVED.fullmatch(line)
    return found[1] if found else None


def count_read(url: str) -> int:
    """How many packets the command has read; 0 before its first metrics."""
    with urllib.request.urlopen(url, timeout=LONG_S) as answer:
        found = _PACKETS.search(answer.read().decode())
    return int(float(found[1])) if found else 0
