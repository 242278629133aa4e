from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.capture.formats.foreign import LOOK_BYTES, foreign_format
from kanalyze.cli.main import main
from kanalyze.common.paths import MAGIC_BYTES
from tests.support.captures import path
from tests.support.cases import for_each
from tests.support.record_sets import batch_of, messages_of


def archive_of(data: bytes, kind: str) -> bytes:
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a.pcap", data)
    else:
        with tarfile.open(fileobj=file, mode="w") as archive:
            member = tarfile.TarInfo("a.pcap")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def erf(*sizes: int, kind: int = 2) -> bytes:
    records = (
        struct.pack("<IIBB", 0, 1_760_000_000 + at, kind, 4)
        + struct.pack(">HHH", size + 16, 0, size)
        + bytes(size)
        for at, size in enumerate(sizes)
    )
    return b"".join(records)


CAPTURE = path("snaplen").read_bytes()
EDITCAP = "convert it with `editcap -F pcap IN OUT`"
BINARY = {
    # As editcap 4.0 writes them, up to the first packet.
    "snoop capture": b"snoop\0\0\0\0\0\0\x02\0\0\0\x04" + bytes(90),
    "Network Monitor 1": b"RTSS\x01\x01\x01\0" + bytes(120),
    "Network Monitor 2": b"GMBU\0\x02\x01\0" + bytes(120),
    "nettl": bytes.fromhex("5452006400000000000000802f746d702f77"),
    "Sniffer": b"TRSNIFF data    \x1a\x01\0\x12\0\0\0\x04",
    "NetXray": b"XCP\x00002.001\0\x85\xce\0k",
    "Observer": b"ObserverPktBufferVersion=15.00",
    "Visual Networks": bytes.fromhex("05564e469800000085ce006b0600ffff"),
    "5View": bytes.fromhex("aaaaaaaa200000000001001800000000"),
    "LANalyzer": bytes.fromhex("01104c000105547261636520446973706c617920"),
    "K12 text": b"+---------+---------------+----------+\r\n",
    "CommView capture": bytes.fromhex("4a004a0000ea070b14163129d8340a0000000000"),
    "a CommView capture": bytes.fromhex("4a000000ea070b14163129d8340a000000000000"),
    "iptrace": b"iptrace 2.0" + bytes(40),
    "EtherPeek": b"\x7fver" + bytes(40),
    "Endace ERF": erf(74, 60, 1514),
    "an Endace ERF capture": erf(74),
    "ERF": erf(*[60] * 99, kind=2 | 0x80),
}
OTHERS = {
    "a zip archive: unpack it before": archive_of(CAPTURE, "zip"),
    "a tar archive: unpack it before": archive_of(CAPTURE, "tar"),
    "tar": gzip.compress(archive_of(CAPTURE, "tar")),
    "a web page: a download": b"\r\n <!DOCTYPE html>\n<html lang='en'><title>Sign in</title>",
    "a web page": b"<HTML><body>404</body></HTML>",
    "an XML document: a download": b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
    "JSON": b'{"error": "not found"}',
    "Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
    "`kafka-dump-log.sh --files FILE`": batch_of(),
    "log segment of a Kafka broker": messages_of(0),
    "a log segment": messages_of(1),
    "--keylog FILE": b"# made by a test\nCLIENT_RANDOM " + b"0a" * 32 + b" " + b"0b" * 48 + b"\n",
    "a Parquet file": b"PAR1\x15\x04\x15",
    "`text2pcap IN OUT`": b"0000  00 00 5e 00 53 01 00 00 5e 00 53 02 08 00 45 00   ..^.S...\n",
}
TCPDUMP = (
    # Without options and with -t, -tt, -ttt, -tttt, -e, -v, on "any"; with the line of "2>&1".
    b"12:00:00.000000 IP 10.0.0.5.40001 > 10.0.0.1.9092: Flags [S], seq 1, win 64240, length 0\n",
    b"IP 10.0.0.5.40001 > 10.0.0.1.9092: Flags [S], seq 1, win 64240, length 0\n",
    b"1795214981.668888 IP6 fd00::5.40001 > fd00::1.9092: Flags [S], seq 1, length 0\n",
    b" 00:00:00.000000 IP 10.0.0.5.40001 > 10.0.0.1.9092: Flags [S], seq 1, length 0\n",
    b"2026-11-20 22:49:41.668888 IP 10.0.0.5.40001 > 10.0.0.1.9092: Flags [S], seq 1\n",
    b"22:49:41.668888 02:00:00:00:00:05 > 02:00:00:00:00:01, ethertype IPv4 (0x0800), length 74\n",
    b"22:49:41.668888 IP (tos 0x0, ttl 64, id 34581, offset 0, flags [DF], proto TCP (6))\n",
    b"22:49:14.139516 lo    In  IP 10.0.0.5.40001 > 10.0.0.1.9092: Flags [S], seq 2387916101\n",
    b"22:49:14.139516 ARP, Request who-has 10.0.0.1 tell 10.0.0.5, length 28\n",
    b"reading from file a.pcap, link-type EN10MB (Ethernet), snapshot length 128\n",
    b"tcpdump: verbose output suppressed, use -v[v]... for full protocol decode\n",
)
TSHARK = (
    "    1 0.000000000    10.0.0.5 \u2192 10.0.0.1    TCP 74 49384 \u2192 9092 [SYN]\n".encode(),
    b"  1   0.000000 10.0.0.5 -> 10.0.0.1 TCP 74 49384 > 9092 [SYN]\n",
    b"Frame 1: 74 bytes on wire (592 bits), 74 bytes captured (592 bits)\n",
    b'[\n  {\n    "_index": "packets-2026-11-20",\n',
    b'{"index":{"_index":"packets-2026-11-20","_type":"doc"}}\n',
    b'<?xml version="1.0" encoding="utf-8"?>\n<!-- a comment -->\n<pdml version="0">\n',
    b'<?xml version="1.0" encoding="utf-8"?>\n<psml version="0" creator="wireshark/4.0.17">\n',
    b"No.     Time           Source                Destination           Protocol Length Info\n",
    b'"No.","Time","Source","Destination","Protocol","Length","Info"\n',
)


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Return a function that gives a file to a command, and returns what is said of it."""
    monkeypatch.chdir(tmp_path)

    def say(data: bytes, command: str) -> str:
        (tmp_path / "given.pcap").write_bytes(data)
        assert main([*command.split(), "given.pcap"]) == 2
        out, err = capsys.readouterr()
        assert not out
        [line] = err.splitlines()
        assert line.startswith("kanalyze: given.pcap: is not a pcap or pcapng file but ")
        return line

    return say


def test_another_capture_format_is_named_with_the_way_to_convert_it(said):
    for name, data in BINARY.items():
        line = said(data, "connections")
        assert name in line
        assert line.endswith(EDITCAP)


def test_what_is_no_capture_at_all_is_named_with_what_to_do(said):
    for words, data in OTHERS.items():
        assert words in said(data, "requests"), words
        assert words in said(data * 3000, "requests"), words


def test_text_about_packets_is_named_with_the_option_that_writes_them(said):
    for text in TCPDUMP:
        assert said(text * 99, "anomalies").endswith(
            "tcpdump's text: capture with `tcpdump -w FILE`"
        )
    for text in TSHARK:
        assert said(text * 99, "anomalies").endswith("Wireshark: capture with `tshark -w FILE`")


def test_every_command_that_reads_captures_says_it(said):
    snoop = BINARY["snoop capture"]
    commands = "report", "decode", "records", "save -o a.duckdb", "extract -o a.pcapng"
    for command in (*commands, "anonymize -o a.pcapng"):
        assert "snoop" in said(snoop, command)


@for_each(
    "data",
    [
        b"hello, world\n" * 99,
        b"# Notes\n\n12:00 lunch\n",
        bytes(4096),
        b"\xff" * 4096,
        b"\x7fELF\x02\x01\x01" + bytes(99),
        b"capture,connection,client_ip\na.pcap,10.0.0.5:1>10.0.0.1:9092,10.0.0.5\n",
        b"12 monkeys 1995 - film\n",
        erf(74, 60)[:-1] + b"\x01" + bytes(16),
        struct.pack(">qiibI", 0, 60, 1, 0, 5) + bytes(60),
    ],
)
def test_what_nobody_can_tell_is_not_named(data):
    assert foreign_format(data[:LOOK_BYTES]) is None


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_one_format_or_none(data, cut):
    for begin in (data, *(known[:cut] + data for known in (*BINARY.values(), *TCPDUMP))):
        known = foreign_format(begin)
        assert known is None or (known.name.isprintable() and known.advice.isprintable())


def test_a_capture_in_any_form_is_no_foreign_format():
    assert foreign_format(CAPTURE[:LOOK_BYTES]) is None
    assert foreign_format(path("errors").read_bytes()[:LOOK_BYTES]) is None
    assert LOOK_BYTES > MAGIC_BYTES
