"""An anonymized capture has no names, and gives the same rows and report except for names."""

from __future__ import annotations

import os
import stat
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.anonymization.anonymize import Anonymization, key_of
from kanalyze.cli.main import main
from kanalyze.decoding.secrets import HIDDEN
from kanalyze.errors import UsageError
from kanalyze.export.files import OutputFile
from tests.support.anonymous import (
    KEY,
    TABLES,
    anonymous,
    is_stand_in,
    needles,
    rows_of,
)
from tests.support.captures import CHOSEN, NAMES, in_turn, often, path
from tests.support.disorder import altered
from tests.support.packets import Blocks, Packet, names_block, secrets_block, segment

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

KAFKA = [name for name in NAMES if name != "tls"]
OFTEN = ("any", "basics", "codecs", "groups", "ipv6", "old-0-8-2-2", "sasl", "snaplen")
OF_FILES = ("capture",)
CHECKSUMS = (
    *("frame.number", "frame.time_epoch", "frame.len", "frame.cap_len", "ip.checksum.status"),
    *("tcp.checksum.status", "udp.checksum.status", "tcp.seq_raw", "tcp.srcport", "tcp.flags"),
)


OF_CONTENTS = (
    *("key_schema_id", "value_schema_id", "key_schema_guid", "value_schema_guid", "trace_id"),
    "parent_span_id",
)
"""Columns with contents of records, which are blank."""


def assert_same(before: Path, after: Path, table: str, but: Collection[str] = ()) -> int:
    expected, found = rows_of(before, table), rows_of(after, table)
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        for column in type(one).__slots__ if not hasattr(one, "_fields") else one._fields:
            if column not in OF_FILES and column not in but:
                was, now = getattr(one, column), getattr(other, column)
                assert is_stand_in(was, now), (table, column, was, now)
    return len(found)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(KAFKA, OFTEN))
def test_rows_are_the_same_but_for_names(tmp_path: Path, name: str) -> None:
    made = anonymous(tmp_path, path(name))
    assert sum(assert_same(path(name), made, table, OF_CONTENTS) for table in TABLES)


@pytest.mark.few(5)
@pytest.mark.parametrize(("name", "strips"), in_turn(NAMES, [False, True], CHOSEN))
def test_no_name_address_or_content_is_left(tmp_path: Path, name: str, *, strips: bool) -> None:
    known = needles(path(name))
    assert known or name == "tls"
    made = anonymous(tmp_path, path(name), strips=strips)
    content = made.read_bytes()
    assert [each for each in known if each in content] == []
    for record in kanalyze.records(made, values=True):
        texts = [record.value, *(each.value for each in record.headers or ())]
        if not record.is_control:
            assert all(set(each) == {"x"} or each == HIDDEN for each in texts if each)


def test_without_records_a_capture_is_a_fraction(tmp_path: Path) -> None:
    made = anonymous(tmp_path, path("large"), strips=True)
    assert made.stat().st_size < path("large").stat().st_size / 5
    sizes = fields(path("large"), "frame.len"), fields(made, "frame.len")
    assert sizes[0] == sizes[1]


def fields(capture: Path, *names: str) -> list[str]:
    """Return these fields of each packet, as tshark prints them."""
    checks = [f"-o{each}.check_checksum:TRUE" for each in ("ip", "tcp", "udp")]
    words = [word for name in names for word in ("-e", name)]
    done = subprocess.run(
        ["tshark", "-r", str(capture), *checks, "-T", "fields", *words],
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.splitlines()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", often(NAMES, ("ipv6", "transactions")))
def test_tshark_finds_the_same_checksums_right(tmp_path: Path, name: str) -> None:
    made = anonymous(tmp_path, path(name))
    assert fields(made, *CHECKSUMS) == fields(path(name), *CHECKSUMS)


DISORDERS = (
    *("every packet twice", "sent again", "sent again with other bytes", "extended backwards"),
    *("cut at random", "joined", "sequence numbers wrap", "VLAN in VLAN", "Linux cooked 1"),
    *("Linux cooked 2", "null, big-endian", "raw IP", "in IPv4", "padded", "other IP version"),
    *("pcap, big-endian", "pcapng of several interfaces", "IP options", "on several links"),
    *("MPLS", "PPPoE", "PPP in HDLC framing", "GRE with all fields", "NVGRE", "VXLAN of VLAN"),
    *("VXLAN in VXLAN", "VXLAN over IPv6", "Geneve", "Geneve without Ethernet"),
)


@pytest.mark.parametrize(
    "label", often(DISORDERS, ("sent again with other bytes", "cut at random", "VXLAN in VXLAN"))
)
def test_captures_in_disorder_give_the_same_rows(tmp_path: Path, label: str) -> None:
    before = tmp_path / "disorder.capture"
    (content,) = altered("mock", label).files
    before.write_bytes(content)
    made = anonymous(tmp_path, before)
    assert assert_same(before, made, "requests")
    assert assert_same(before, made, "connections")


def test_two_captures_with_one_key_agree(tmp_path: Path) -> None:
    for each in ("a", "b"):
        (tmp_path / each).mkdir()
    first, again = (anonymous(tmp_path / each, path("any")) for each in ("a", "b"))
    assert first.read_bytes() == again.read_bytes()
    other = tmp_path / "other.pcapng"
    kanalyze.anonymize(path("any"), output=other)
    assert other.read_bytes() != first.read_bytes()
    assert len(rows_of(other, "requests")) == len(rows_of(first, "requests"))


def test_metadata_beside_the_packets_is_left_out(tmp_path: Path) -> None:
    blocks = Blocks()
    packet = Packet(segment(payload=b"GET / HTTP/1.1\r\nHost: intranet.example\r\n\r\n"))
    comment = blocks.option(1, b"the comment of a colleague")
    parts = [
        *(blocks.section(), blocks.interface(options=blocks.option(2, b"secret-interface"))),
        names_block(blocks, [("192.0.2.1", ["host.example"])]),
        secrets_block(blocks, b"CLIENT_RANDOM 00 11"),
        blocks.enhanced(packet, packet.time_ns),
        blocks.statistics(0, comment),
    ]
    before = tmp_path / "beside.pcapng"
    before.write_bytes(b"".join(parts))
    content = anonymous(tmp_path, before).read_bytes()
    for secret in (
        b"secret-interface",
        b"host.example",
        b"CLIENT_RANDOM",
        b"colleague",
        b"intranet",
    ):
        assert secret in before.read_bytes()
        assert secret not in content


def test_the_file_is_private_and_no_temporary_file_remains(tmp_path: Path) -> None:
    made = anonymous(tmp_path, path("any"))
    assert stat.S_IMODE(made.stat().st_mode) & 0o077 == 0
    assert [each.name for each in tmp_path.iterdir()] == [made.name]


def test_a_pipe_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    try:
        target = tmp_path / "out.pcapng"
        assert main(["anonymize", "-o", str(target), str(pipe)]) == 2
    finally:
        os.close(reader)
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert "twice" in stderr
    assert not target.exists()


def test_progress_counts_both_passes(tmp_path: Path) -> None:
    made = Anonymization([path("any")], KEY)
    made.run(partial(OutputFile, str(tmp_path / "out.pcapng")))
    done, total = made.progress
    assert done == total == 2 * path("any").stat().st_size


def test_a_key_is_derived_slowly_from_a_passphrase() -> None:
    assert key_of(b"one") == key_of(b"one") != key_of(b"other")
    assert key_of(None) != key_of(None)
    assert len(key_of(b"one")) == len(key_of(None)) == 32
    with pytest.raises(UsageError, match="empty"):
        key_of(b" ")


def test_the_library_checks_its_arguments(tmp_path: Path) -> None:
    target = tmp_path / "out.pcapng"
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (UsageError, {"key": 5}),
        (UsageError, {"key": ""}),
        (UsageError, {"force": 1}),
        (UsageError, {"strip_records": None}),
        (TypeError, {"api": "Fetch"}),
    ]
    for error, options in wrong:
        with pytest.raises(error):
            kanalyze.anonymize(path("any"), output=target, **options)
    found = kanalyze.anonymize(path("any"), output=target, key="k", port=9092)
    assert found.messages == 57
    with pytest.raises(UsageError, match="is a capture"):
        kanalyze.anonymize(path("any"), output=target, key="k")
    again = kanalyze.anonymize(path("any"), output=target, key=b"k", port=9092, force=True)
    assert again == found
