"""An anonymous capture with prefixes of proxies gives the same rows, and has no names of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.anonymization.test_anonymize import assert_same
from tests.support import kafka as k
from tests.support import proxied
from tests.support.anonymous import anonymous, counted, rows_of
from tests.support.proxied import OTHER, PREFIXES, SENDER, sent
from tests.support.traffic import Line, capture_of

if TYPE_CHECKING:
    from pathlib import Path

SECRET = (
    *(proxied.PASSWORD, proxied.USER, proxied.TARGET.encode(), b"YWxpY2U6aHVudGVyMi1zZWNyZXQ="),
    *(b"203.0.113.7", bytes((203, 0, 113, 7)), b"2001:db8::7", bytes.fromhex("20010db8")),
    *(b"corp", b"authority", b"ffff::1", b"alice", b"10.7.7.7", bytes((10, 7, 7, 7))),
)
PROXIED = ("proxied_client_ip", "proxied_target")


def capture_behind(folder: Path, name: str) -> Path:
    packets: list[bytes] = []
    line = Line(packets).open()
    for side, data in PREFIXES[name]:
        line.says(side, data)
    for number in (1, 2):
        line.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    line.close()
    file = folder / "behind.pcap"
    file.write_bytes(capture_of(packets))
    return file


@pytest.mark.parametrize("name", PREFIXES)
def test_the_rows_are_the_same_but_for_names(tmp_path: Path, name: str) -> None:
    before = capture_behind(tmp_path, name)
    after = anonymous(tmp_path, before)
    assert assert_same(before, after, "requests", but=PROXIED) == 2
    assert assert_same(before, after, "connections", but=PROXIED) == 1
    for one, other in zip(rows_of(before, "requests"), rows_of(after, "requests"), strict=True):
        assert one.proxy == proxied.kind_of(name)
        for column in PROXIED:
            was, now = getattr(one, column), getattr(other, column)
            assert (was is None) == (now is None)
            assert was is None or was != now
    written = after.read_bytes()
    assert [secret for secret in SECRET if secret in written] == []


def test_a_target_keeps_its_port_and_length(tmp_path: Path) -> None:
    after = anonymous(tmp_path, capture_behind(tmp_path, "SOCKS5"))
    host, _, port = rows_of(after, "requests")[0].proxied_target.rpartition(":")
    assert (len(host), port) == (len(proxied.TARGET), "9092")


def test_the_same_client_keeps_one_stand_in_in_version_2_and_in_packets(tmp_path: Path) -> None:
    packets: list[bytes] = []
    line = Line(packets).open().client(proxied.v2(("10.0.0.1", 50000)))
    line.client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).close()
    file = tmp_path / "a.pcap"
    file.write_bytes(capture_of(packets))
    (row,) = rows_of(anonymous(tmp_path, file), "requests")
    assert row.proxied_client_ip == row.client_ip


def test_a_prefix_before_something_else_is_kept_and_the_rest_is_blank(tmp_path: Path) -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    for side, data in PREFIXES["HTTP CONNECT, login"]:
        line.says(side, data)
    line.client(b"GET /secret HTTP/1.1\r\nHost: secret\r\n\r\n").close()
    file, target = tmp_path / "a.pcap", tmp_path / "b.pcapng"
    file.write_bytes(capture_of(packets))
    assert counted(target, file).connections == 0
    (row,) = rows_of(target, "connections")
    assert row.proxy == "http-connect"
    assert b"secret" not in target.read_bytes()


def test_a_prefix_with_a_hole_shows_nothing(tmp_path: Path) -> None:
    packets: list[bytes] = []
    turns = PREFIXES["SOCKS5, password"]
    line = Line(packets).open()
    whole = sent(turns, SENDER)
    line.client(whole[:12]).loses(SENDER, 2).client(whole[14:]).broker(sent(turns, OTHER))
    for number in (1, 2, 3):
        line.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    file, target = tmp_path / "a.pcap", tmp_path / "b.pcapng"
    file.write_bytes(capture_of(packets))
    counted(target, file)
    written = target.read_bytes()
    assert [word for word in (b"alic", proxied.PASSWORD[2:], b"10.7.7.7") if word in written] == []
