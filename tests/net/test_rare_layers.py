from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net import rare_layers, scapy_layers
from kanalyze.net.header_kinds import LLC_FRAME
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.support.cases import examples, for_each
from tests.support.packets import Packet, ethernet, ipv4, make_batch, tcp
from tests.support.wrapped import wrapped

RARE = ("802.11", "radiotap", "802.1ah", "EtherIP", "GTP-U", "PPTP")
NAMES = [name for name in wrapped() if any(rare in name for rare in RARE)]
READERS = [getattr(scapy_layers, name) for name in scapy_layers.__all__ if name != "Inside"]


def read(*packets: Packet):
    stats = LayerStats(every_anomaly=True)
    return read_headers(make_batch(list(packets)), stats), stats


def packet(name: str, data: bytes | None = None) -> Packet:
    found = wrapped()[name]
    return Packet(found.data if data is None else data, link_type=found.link_type)


@for_each("name", NAMES)
def test_without_scapy_rare_layers_are_counted_and_the_anomaly_names_the_extra(name, monkeypatch):
    monkeypatch.setattr(rare_layers, "_module", lambda: None)
    segments, stats = read(packet(name))
    assert len(segments) == 0
    assert sum(stats.counters.other_packets.values()) == 1
    (anomaly,) = stats.drain_anomalies()
    assert anomaly.kind is AnomalyKind.UNKNOWN_LINK_TYPE
    assert "pip install 'kanalyze[layers]'" in anomaly.detail
    assert stats.counters.tunnels == {}


def test_the_library_is_not_imported_before_it_is_needed():
    code = """if True:
        import sys
        from kanalyze.net.headers import read_headers
        from kanalyze.net.layer_stats import LayerStats
        from tests.support.packets import make_batch, segment, timed
        read_headers(make_batch(timed([segment()])), LayerStats())
        assert not [name for name in sys.modules if name.partition(".")[0] == "scapy"]
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_error_within_the_library_s_module_is_not_taken_for_its_absence(monkeypatch):
    def broken(_name: str):
        raise ModuleNotFoundError(name="kanalyze.net.nothing")

    monkeypatch.setattr(rare_layers.importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError):
        rare_layers._module.__wrapped__()

    def missing(_name: str):
        raise ModuleNotFoundError(name="scapy.layers")

    monkeypatch.setattr(rare_layers.importlib, "import_module", missing)
    assert rare_layers._module.__wrapped__() is None


@pytest.mark.few(1)
@for_each("name", NAMES)
def test_a_packet_that_is_cut_anywhere_is_counted_once_and_raises_nothing(name):
    whole = wrapped()[name]
    packets = [
        Packet(whole.data[:size], wire_bytes=len(whole.data), link_type=whole.link_type)
        for size in range(len(whole.data))
    ]
    segments, stats = read(*packets)
    counters = stats.counters
    accounted = (
        len(segments) + counters.cut_headers + counters.bad_ip_headers + counters.bad_tcp_headers
    )
    accounted += sum(counters.other_packets.values())
    assert accounted == len(packets)


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(NAMES), st.data())
def test_changed_bytes_raise_nothing(name, draw):
    data = bytearray(wrapped()[name].data)
    for _ in range(draw.draw(st.integers(1, 6))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    segments, _ = read(packet(name, bytes(data)))
    assert len(segments) <= 1


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(READERS), st.binary(max_size=80))
def test_any_bytes_give_the_end_of_a_header_or_a_name(reader, data):
    found = reader(data)
    if isinstance(found, str):
        assert found
    else:
        assert 0 < found.header_bytes <= len(data) + 4
        assert found.kind


def dot11(control: int, flags: int = 0, *, sequence: int = 0, rest: bytes = bytes(20)) -> bytes:
    return bytes([control, flags, 0, 0]) + bytes(18) + sequence.to_bytes(2, "little") + rest


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (dot11(0x08), (24, LLC_FRAME)),
        (dot11(0x88, rest=b"\x05\0" + bytes(9)), (26, LLC_FRAME)),
        (dot11(0x88, 0x80, rest=b"\x05\0" + bytes(9)), (30, LLC_FRAME)),
        (dot11(0x08, 3), (30, LLC_FRAME)),
        (dot11(0x80), "802.11 management"),
        (dot11(0xD4), "802.11 control"),
        (dot11(0x48), "802.11 without data"),
        (dot11(0x08, 0x40), "802.11 encrypted"),
        (dot11(0x08, 0x04), "802.11 fragment"),
        (dot11(0x08, sequence=1), "802.11 fragment"),
        (dot11(0x88, rest=b"\x80\0" + bytes(9)), "802.11 aggregate"),
        (dot11(0x08)[:20], "802.11 cut short"),
        (b"", "802.11 cut short"),
    ],
)
def test_frames_of_802_11_are_read_or_named(data, expected):
    found = scapy_layers.read_dot11(data)
    assert found == expected
    if isinstance(expected, str):
        _, stats = read(Packet(data, link_type=105))
        assert stats.counters.other_packets == {expected: 1}
        assert stats.counters.not_ip == 1
        assert stats.drain_anomalies() == []


def gtp(inner: bytes, flags: int = 0x30, kind: int = 255, more: bytes = b"") -> bytes:
    return bytes([flags, kind]) + (len(more) + len(inner)).to_bytes(2) + bytes(4) + more + inner


def over_udp(data: bytes) -> bytes:
    return ipv4(b"\0\5\x08\x68" + (8 + len(data)).to_bytes(2) + b"\0\0" + data, protocol=17)


@pytest.mark.parametrize(
    "data",
    [
        gtp(ipv4(tcp()), kind=1),
        gtp(ipv4(tcp()), flags=0x10),
        gtp(ipv4(tcp()), flags=0x50),
        gtp(b"\x05" * 40),
        gtp(ipv4(tcp()), flags=0x34, more=b"\0\0\0\x85" + b"\0\0\0\0"),  # an extension of length 0
        gtp(ipv4(tcp()), flags=0x34, more=b"\0\0\0\x85" + b"\xff\0\0\0"),  # past the end
        gtp(ipv4(tcp()), flags=0x34, more=b"\0\0\0\x85" + b"\1\0\0\x85" * 40),  # without an end
    ],
)
def test_other_payload_on_the_port_of_gtp_stays_udp(data):
    segments, stats = read(Packet(ethernet(over_udp(data))))
    assert len(segments) == 0
    assert stats.counters.other_packets == {"UDP": 1}


def test_known_and_unknown_extensions_are_stepped_over():
    more = b"\0\0\0\x85" + b"\1\0\0\xc0" + b"\2" + bytes(6) + b"\0"
    segments, stats = read(Packet(ethernet(over_udp(gtp(ipv4(tcp()), flags=0x34, more=more)))))
    assert len(segments) == 1
    assert stats.counters.tunnels == {"GTP-U": 1}


def test_nested_tunnels_are_read_to_a_bound():
    data = ipv4(tcp())
    for _ in range(30):
        data = over_udp(gtp(data))
    segments, stats = read(Packet(ethernet(data)))
    assert len(segments) == 0
    assert stats.counters.other_packets == {"nested too deeply": 1}


def test_an_impossible_pktap_header_is_counted_and_affects_no_other_packet():
    def pktap(size: int, follows: int, link: int) -> Packet:
        head = b"".join(number.to_bytes(4, "little") for number in (size, follows, link))
        return Packet(head.ljust(108, b"\0") + ethernet(ipv4(tcp())), link_type=258)

    bad = [pktap(4, 1, 1), pktap(108, 0, 1), pktap(108, 1, 258), pktap(108, 1, 105_000)]
    segments, stats = read(*bad, pktap(1 << 31, 1, 1), pktap(108, 1, 1))
    assert len(segments) == 1
    name = "PKTAP (link type 258)"
    assert stats.counters.other_packets == {name: 3, "link type 105000": 1}
    assert stats.counters.cut_headers == 1
