from __future__ import annotations

import re
from pathlib import Path

import kanalyze
from kanalyze.net import direction, duplicates, kinds, output, round_trips
from tests.support.uncompiled import uncompiled

NET = Path(kanalyze.__file__).parent / "net"


def constants_of(name: str) -> dict[str, int]:
    """Read the constants of C out of a file of types."""
    text = (NET / f"{name}.pxd").read_text()
    found: dict[str, int] = {}
    for block in re.findall(r"cdef enum:\n((?:(?:    .*)?\n)+)", text):
        for constant, value in re.findall(r"^    (\w+) = (-?\d+)$", block, re.MULTILINE):
            found[constant] = int(value)
    return found


def test_every_constant_of_c_is_that_of_python():
    counted = 0
    with uncompiled() as modules:
        for path in NET.glob("*.pxd"):
            python = vars(modules[f"kanalyze.net.{path.stem}"])
            for name, value in constants_of(path.stem).items():
                assert python.get(name, vars(kinds).get(name)) == value, (path.stem, name)
                counted += 1
    assert counted > 50


def test_numbers_that_are_told_are_those_that_are_used():
    assert constants_of("duplicates") == {
        "IS_COPY": output.DUPLICATE,
        "IDENTIFIED": duplicates.IDENTIFIED_NS,
        "UNIDENTIFIED": duplicates.UNIDENTIFIED_NS,
        "WITHIN": duplicates.WITHIN_PACKETS,
        "LEAST_TABLE": 16,
    }
    assert constants_of("walk")["IS_ZERO_WINDOW"] == output.ZERO_WINDOW
    assert constants_of("meter")["IS_COPY"] == output.DUPLICATE
    assert constants_of("findings")["IS_COPY"] == output.DUPLICATE
    assert constants_of("connection_state")["IS_COPY"] == output.DUPLICATE
    assert constants_of("direction")["PAST_BYTES"] == direction.PAST_WINDOW_BYTES
    assert constants_of("round_trips")["MOST_TIMED"] == round_trips.MAX_TIMED_SEGMENTS


def test_registries_do_not_run_into_one_another():
    names = ("LLC", "PPP_PROTOCOL", "FAMILY", "IP_VERSION", "IP_PROTOCOL", "GRE")
    starts = [getattr(kinds, name) for name in names]
    assert all(start & 0xFFFF == 0 for start in starts)
    assert len(set(starts)) == len(starts)


def test_what_stands_in_ip_is_above_what_does_not():
    below = (kinds.LLC, kinds.PPP_PROTOCOL, kinds.FAMILY, kinds.IP_VERSION)
    assert all(start + 0xFFFF < kinds.TRANSPORT for start in below)
    assert kinds.GRE >= kinds.TRANSPORT <= kinds.IP_PROTOCOL
