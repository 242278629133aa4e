"""What we read from files, compared with Wireshark's tools.

Without them this file is not collected (see conftest.py, which says so).
"""

from __future__ import annotations

import subprocess
from decimal import Decimal

import pytest

from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
from kanalyze.capture.reader import open_capture
from tests.support.captures import in_turn
from tests.support.packets import (
    START_NS,
    Blocks,
    Packet,
    enhanced_with_options,
    lcap_file,
    modified_pcap_file,
    names_block,
    pcap_file,
    pcapng_file,
    secrets_block,
    segment,
    timed,
    variant_pcap_file,
)

PACKETS = [
    Packet(segment(seq=100 * i, payload=b"x" * (7 * i % 90)), START_NS + i * 1_234_567, None)
    for i in range(30)
]
SNAPPED = [Packet(p.data[:60], p.time_ns, len(p.data)) for p in PACKETS]


def run(tool: str, *arguments: str) -> str:
    return subprocess.run([tool, *arguments], capture_output=True, check=True, text=True).stdout


def by_tshark(path) -> list[tuple[int, int, int, str]]:
    """Time in ns, captured and wire length, and the encapsulation of each packet."""
    fields = ("frame.time_epoch", "frame.cap_len", "frame.len", "frame.encap_type")
    arguments = [part for field in fields for part in ("-e", field)]
    lines = run("tshark", "-r", str(path), "-n", "-T", "fields", *arguments).splitlines()
    rows = [line.split("\t") for line in lines]
    # tshark shows custom blocks as frames without an encapsulation and, in some versions, without
    # a time. To us, as to tcpdump, they are no packets.
    return [(int(Decimal(t) * 10**9), int(c), int(w), e) for t, c, w, e in rows if e and t]


def by_us(path) -> list[tuple[int, int, int, int]]:
    out = []
    with open_capture(path) as reader:
        for batch in reader.batches():
            columns = (batch.time_ns, batch.captured_bytes, batch.wire_bytes, batch.link_type)
            out += zip(*(column.tolist() for column in columns), strict=True)
    assert reader.anomalies == []
    return out


ETHERNET, RAW_IP = "1", "7"
"""As Wireshark numbers encapsulations (wiretap/wtap.h)."""


def several_interfaces(order: str) -> bytes:
    b = Blocks(order)
    data = b""
    for resolution, per_s in ((6, 10**6), (9, 10**9), (3, 10**3), (0x94, 1 << 20)):
        data += b.section() + b.interface(1, 96, b.option(9, bytes([resolution])))
        data += b.interface(101, 0, b.option(14, b.pack("q", -5)))
        data += names_block(b, [("10.0.0.2", ["broker"])]) + secrets_block(b, b"CLIENT_RANDOM a b")
        data += b.block(0xBAD, b.pack("I", 32473) + b"custom")
        for p in SNAPPED[:5]:
            ticks = p.time_ns * per_s // 10**9
            options = b.option(2, bytes(4)) + b.option(1, b"note") + b.option(0, b"")
            data += enhanced_with_options(b, p, ticks, options)
            ip = Packet(p.data[14:], p.time_ns)
            data += b.enhanced(ip, p.time_ns // 1000, 1) + b.obsolete(p, ticks)
    return data


FORMS = {
    "pcap in ns": lambda o: pcap_file(SNAPPED, order=o),
    "pcap in us": lambda o: pcap_file(SNAPPED, order=o, nanoseconds=False),
    "modified pcap": lambda o: modified_pcap_file(PACKETS, o),
    "lcap of hardware": lambda o: lcap_file(PACKETS, o),
    "lcap of software": lambda o: lcap_file(PACKETS, o, nanoseconds=False),
    "pcap with check sequences": lambda o: pcap_file(PACKETS, order=o, link_type=0x2400_0000 | 1),
    "pcap 2.2": lambda o: variant_pcap_file(
        SNAPPED, 0xA1B2C3D4, order=o, version=(2, 2), lengths_swapped=True
    ),
    "pcap of AIX": lambda o: variant_pcap_file(
        SNAPPED,
        0xA1B2C3D4,
        order=o,
        version=(2, 2),
        link_type=6,
        nanoseconds=True,
        lengths_swapped=True,
    ),
    "pcapng": lambda o: pcapng_file(SNAPPED, o),
    "pcapng of several interfaces": several_interfaces,
}


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "order"), in_turn(FORMS, "<>"))
def test_wireshark_reads_the_same_packets(name, order, tmp_path):
    path = tmp_path / "x.cap"
    path.write_bytes(FORMS[name](order))
    theirs, ours = by_tshark(path), by_us(path)
    # tshark 4.0 takes the nanoseconds of lcap for microseconds; later versions do not.
    first = 1 if name.startswith("lcap of hardware") else 0
    assert [row[first:3] for row in theirs] == [row[first:3] for row in ours]
    encapsulations = {1: ETHERNET, 101: RAW_IP}
    assert [row[3] for row in theirs] == [encapsulations[row[3]] for row in ours]
    assert ours


def test_tshark_finds_the_same_drops_names_and_comments(tmp_path):
    b = Blocks()
    data = b.section() + b.interface() + b.interface()
    data += names_block(b, [("10.0.0.2", ["broker-7"])])
    data += enhanced_with_options(b, PACKETS[0], 1, b.option(4, b.pack("Q", 3)))
    data += enhanced_with_options(b, PACKETS[1], 2, b.option(4, b.pack("Q", 9)), 1)
    data += enhanced_with_options(b, PACKETS[2], 3, b.option(1, b"look here"), 1)
    for interface, drops in ((0, 3), (0, 17), (1, 5)):
        data += b.statistics(interface, b.option(5, b.pack("Q", drops)) + b.option(0, b""))
    path = tmp_path / "x.pcapng"
    path.write_bytes(data)
    with open_capture(path) as reader:
        assert sum(len(batch) for batch in reader.batches()) == 3
    field = "pcapng.options.option.data.interface.dropped"
    as_file = ("-X", "read_format:MIME Files Format", "-T", "fields", "-e", field)
    assert run("tshark", "-r", str(path), *as_file).strip() == "3,17,5"
    fields = ("-T", "fields", "-e", "frame.drop_count", "-e", "frame.comment", "-e", "ip.dst_host")
    lines = run("tshark", "-r", str(path), "-N", "nN", *fields).splitlines()
    rows = [line.split("\t") for line in lines]
    assert [row[0] for row in rows] == ["3", "9", ""]
    assert {row[2] for row in rows} == {"broker-7"}
    # The last statistics of the first interface; the packets of the second count more drops.
    assert reader.dropped_packets == 17 + 9
    assert [(each.number, each.text) for each in reader.description.comments] == [(3, rows[2][1])]
    assert reader.description.names == {"10.0.0.2": ("broker-7",)}


def test_capinfos_finds_the_same_interfaces(tmp_path):
    b = Blocks()
    data = b.section() + b.interface(1, 96, b.option(2, b"eth0") + b.option(11, b"\0tcp"))
    data += b.interface(113, 0, b.option(12, b"Linux")) + b.enhanced(PACKETS[0], 1)
    path = tmp_path / "x.pcapng"
    path.write_bytes(data)
    with open_capture(path) as reader:
        assert sum(len(batch) for batch in reader.batches()) == 1
    lines = [line.strip() for line in run("capinfos", "-I", str(path)).splitlines()]
    first, second = reader.description.interfaces
    assert f"Name = {first.name}" in lines
    assert f"Filter string = {first.filter}" in lines
    assert f"Capture length = {first.snap_bytes}" in lines
    assert f"Operating system = {second.system}" in lines
    assert (first.link_type, second.link_type) == (1, 113)


def test_mergecap_gives_the_same_order(tmp_path):
    packets = timed([segment(seq=i, payload=b"%04d" % i) for i in range(400)], 1001)
    for k in range(4):
        form = pcapng_file if k % 2 else pcap_file
        mine = [p for i, p in enumerate(packets) if (i * i // 7 + i) % 4 == k]
        (tmp_path / f"{k}.cap").write_bytes(form(mine))
    with MergedCaptures(find_inputs([tmp_path]), buffer_bytes=4096) as merged:
        ours = [t for batch in merged.batches() for t in batch.time_ns.tolist()]
    together = tmp_path / "all.pcapng"
    run("mergecap", "-w", str(together), *(str(tmp_path / f"{k}.cap") for k in range(4)))
    assert ours == [row[0] for row in by_tshark(together)]
    assert len(ours) == 400


def test_files_that_editcap_writes_are_read(tmp_path):
    source = tmp_path / "a.pcap"
    source.write_bytes(pcap_file(PACKETS))
    for form in ("pcap", "nsecpcap", "pcapng", "modpcap"):
        path = tmp_path / form
        run("editcap", "-F", form, "-s", "60", str(source), str(path))
        assert [row[:3] for row in by_us(path)] == [row[:3] for row in by_tshark(path)]
        assert len(by_us(path)) == len(PACKETS)
