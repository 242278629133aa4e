from __future__ import annotations

import re
from pathlib import Path

import kanalyze
from kanalyze.net import header_kinds
from kanalyze.net.tcp import delivery, duplicates, round_trips, sequence_space
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
        for path in NET.rglob("*.pxd"):
            module = str(path.relative_to(NET).with_suffix(""))
            python = vars(modules[f"kanalyze.net.{module.replace('/', '.')}"])
            for name, value in constants_of(module).items():
                assert python.get(name, vars(header_kinds).get(name)) == value, (module, name)
                counted += 1
    assert counted > 50


def test_constants_of_c_with_other_names_have_the_values_of_python():
    assert constants_of("tcp/duplicates") == {
        "IS_COPY": delivery.DUPLICATE,
        "IDENTIFIED": duplicates.IDENTIFIED_NS,
        "UNIDENTIFIED": duplicates.UNIDENTIFIED_NS,
        "WITHIN": duplicates.WITHIN_PACKETS,
        "MIN_TABLE": 16,
    }
    assert constants_of("tcp/segment_iterator")["IS_ZERO_WINDOW"] == delivery.ZERO_WINDOW
    assert constants_of("tcp/tcp_metrics")["IS_COPY"] == delivery.DUPLICATE
    assert constants_of("tcp/stream_anomalies")["IS_COPY"] == delivery.DUPLICATE
    assert constants_of("tcp/connection")["IS_COPY"] == delivery.DUPLICATE
    for module in ("tcp/half_stream", "tcp/sequence_space"):
        assert constants_of(module)["PAST_BYTES"] == sequence_space.PAST_WINDOW_BYTES
    assert constants_of("tcp/round_trips")["MAX_TIMED"] == round_trips.MAX_TIMED_SEGMENTS


def test_the_number_ranges_of_registries_do_not_overlap():
    names = ("LLC", "PPP_PROTOCOL", "FAMILY", "IP_VERSION", "IP_PROTOCOL", "GRE")
    starts = [getattr(header_kinds, name) for name in names]
    assert all(start & 0xFFFF == 0 for start in starts)
    assert len(set(starts)) == len(starts)


def test_kinds_inside_ip_are_above_all_others():
    below = (
        header_kinds.LLC,
        header_kinds.PPP_PROTOCOL,
        header_kinds.FAMILY,
        header_kinds.IP_VERSION,
    )
    assert all(start + 0xFFFF < header_kinds.TRANSPORT for start in below)
    assert header_kinds.GRE >= header_kinds.TRANSPORT <= header_kinds.IP_PROTOCOL
