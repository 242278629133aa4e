"""What ``kanalyze live --metrics`` tells of itself."""

from __future__ import annotations

import re
import urllib.request

from tests.support.waiting import LONG_S

_SERVED = re.compile(r"kanalyze: metrics: (http:\S+)\n")
_PACKETS = re.compile(r"^kanalyze_capture_packets_total ([0-9.e+]+)$", re.MULTILINE)


def served_at(told: str) -> str | None:
    """Where metrics are, in a line that the command told; None in others."""
    found = _SERVED.fullmatch(told)
    return found[1] if found else None


def count_read(url: str) -> int:
    """How many packets the command has read; before its first turn it does not say."""
    with urllib.request.urlopen(url, timeout=LONG_S) as answer:
        found = _PACKETS.search(answer.read().decode())
    return int(float(found[1])) if found else 0
