"""Extracted packets give the same rows as the whole capture; tshark shows the same packets."""

from __future__ import annotations

import os
import random
import stat
import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.capture.formats.pcapng_encoder import (
    PacketBlocks,
    PacketComments,
    interface_description,
    section_header,
)
from kanalyze.capture.merge import MergedCaptures
from kanalyze.cli.main import main
from tests.support import tls_captures
from tests.support.captures import NAMES, often, path
from tests.support.disorder import packet as disorder
from tests.support.disorder.fragments import fragmented
from tests.support.packets import Packet, make_batch, pcap_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kanalyze.spec.rows.requests import Row

WITH_ROWS = [name for name in NAMES if name != "tls"]
OFTEN = ("basics", "errors", "groups", "ipv6", "old-0-9-0-1", "sasl", "snaplen")
OWN_COLUMNS = (
    *("client_ip", "client_port", "broker_ip", "broker_port", "wire", "api_key", "api_version"),
    *("api_name", "correlation_id", "client_id", "request_start_ns", "request_end_ns"),
    *("response_start_ns", "response_end_ns", "latency_ns", "total_time_ns", "request_bytes"),
    *("response_bytes", "status", "error_code", "error_name", "throttle_time_ms", "record_count"),
    *("record_bytes", "acks", "max_wait_ms", "min_bytes", "group_id", "member_id"),
    "transactional_id",
)
"""Columns that depend only on a request and its response. Names of topics by id, and proof that a
broker waited, may come from other messages."""
HANDSHAKE_COLUMNS = ("client_software_name", "client_software_version", "principal")


def extract(folder: Path, *arguments: object) -> list[Row]:
    target = folder / "out.pcapng"
    assert main(["extract", "--force", "-o", str(target), *map(str, arguments)]) == 0
    return list(kanalyze.requests(target)) if target.exists() else []


def rows_of(name: str, api: str) -> list[Row]:
    return [row for row in kanalyze.requests(path(name)) if row.api_name == api]


def key(row: Row) -> tuple[Any, ...]:
    ends = (row.client_ip, row.client_port, row.broker_ip, row.broker_port)
    return (*ends, row.correlation_id, row.request_start_ns, row.response_start_ns)


def assert_found(expected: Sequence[Row], found: Sequence[Row], more: Sequence[str] = ()) -> None:
    by_key = {key(row): row for row in found}
    for row in expected:
        for column in (*OWN_COLUMNS, *more):
            assert (key(row), column, getattr(by_key[key(row)], column)) == (
                *(key(row), column),
                getattr(row, column),
            )
        partitions = [(each.partition, each.topic_id) for each in row.partitions]
        assert [(each.partition, each.topic_id) for each in by_key[key(row)].partitions] == (
            partitions
        )


@pytest.mark.few(4)
@pytest.mark.parametrize("name", often(WITH_ROWS, OFTEN))
def test_extracted_rows_of_a_client_are_those_of_the_whole_capture(
    tmp_path: Path, name: str
) -> None:
    rows = list(kanalyze.requests(path(name)))
    clients = sorted({row.client_id for row in rows if row.client_id})
    client = random.Random(name).choice(clients or [""])
    chosen = [row for row in rows if row.client_id == client]
    option = ("--client-id", client.replace("[", "[[]")) if client else ()
    assert_found(chosen, extract(tmp_path, path(name), *option))


@pytest.mark.parametrize("name", often(WITH_ROWS, OFTEN))
def test_client_software_and_user_are_known_with_the_handshake(tmp_path: Path, name: str) -> None:
    rows = [row for row in kanalyze.requests(path(name)) if row.status != "orphan_response"]
    row = random.Random(name).choice(rows)
    option = ("--api", row.api_name or str(row.api_key))
    chosen = [each for each in rows if each.api_name == row.api_name]
    found = extract(tmp_path, path(name), *option, "--with-handshake")
    assert_found(chosen, found, HANDSHAKE_COLUMNS)


@pytest.mark.parametrize("name", often(WITH_ROWS, OFTEN))
def test_whole_connections_give_all_of_their_rows(tmp_path: Path, name: str) -> None:
    rows = list(kanalyze.requests(path(name)))
    chosen = random.Random(name).choice(rows)
    option = ("--api", chosen.api_name) if chosen.api_name else ("--status", chosen.status)
    selected_connections = {
        (row.connection, row.connection_number)
        for row in rows
        if (row.api_name == chosen.api_name if chosen.api_name else row.status == chosen.status)
    }
    found = extract(tmp_path, path(name), *option, "--whole-connections")
    of_connections = [
        row for row in rows if (row.connection, row.connection_number) in selected_connections
    ]
    assert_found(of_connections, found, HANDSHAKE_COLUMNS)
    assert len(found) == len(of_connections)


def tshark_fields(capture: Path, *fields: str) -> list[list[str]]:
    options = [word for field in fields for word in ("-e", field)]
    command = ["tshark", "-r", str(capture), "-T", "fields", "-E", "separator=\t", *options]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line.split("\t") for line in lines]


def test_tshark_shows_the_same_packets_in_the_same_order_with_comments(tmp_path: Path) -> None:
    fields = ("frame.time_epoch", "frame.len", "tcp.stream", "tcp.seq_raw", "tcp.payload")
    whole = tshark_fields(path("errors"), *fields)
    rows = extract(tmp_path, path("errors"), "--errors", "--with-handshake")
    found = tshark_fields(tmp_path / "out.pcapng", *fields)
    without_stream = [[*line[:2], *line[3:]] for line in found]
    rest = iter([*line[:2], *line[3:]] for line in whole)
    assert all(line in rest for line in without_stream)  # in order, each once
    comments = tshark_fields(tmp_path / "out.pcapng", "frame.number", "frame.comment")
    of_packet = {int(line[0]): line[1] for line in comments if len(line) > 1}
    for row in rows:
        if row.errors and row.response_packet is not None:
            text = of_packet[row.response_packet]
            assert (
                f"{row.api_name} v{row.api_version}; correlation id {row.correlation_id};" in text
            )
            assert row.errors[0].name in text


def test_editcap_reads_the_file(tmp_path: Path) -> None:
    extract(tmp_path, path("basics"), "--api", "Produce")
    out = tmp_path / "again.pcap"
    command = ["editcap", "-F", "nsecpcap", str(tmp_path / "out.pcapng"), str(out)]
    subprocess.run(command, check=True, capture_output=True)
    assert [key(row) for row in kanalyze.requests(out)] == [
        key(row) for row in kanalyze.requests(tmp_path / "out.pcapng")
    ]


def packets_of(capture: Path) -> list[tuple[int, bytes]]:
    with MergedCaptures([str(capture)]) as captures:
        return [
            (time_ns, bytes(batch.buffer[at : at + size]))
            for batch in captures.batches()
            for time_ns, at, size in zip(
                batch.time_ns, batch.offset, batch.captured_bytes, strict=True
            )
        ]


def test_around_adds_packets_near_in_time_on_the_same_connection(tmp_path: Path) -> None:
    row = next(row for row in kanalyze.requests(path("groups")) if row.api_name == "SyncGroup")
    option = ("--api", "SyncGroup", "--client-id", row.client_id)
    extract(tmp_path, path("groups"), *option)
    near = packets_of(tmp_path / "out.pcapng")
    extract(tmp_path, path("groups"), *option, "--around", "1s")
    around = packets_of(tmp_path / "out.pcapng")
    extract(tmp_path, path("groups"), *option, "--around", "10000h")
    all_of_them = packets_of(tmp_path / "out.pcapng")
    assert set(near) < set(around) <= set(all_of_them)
    assert around[0][0] >= row.request_start_ns - 10**9
    extract(tmp_path, path("groups"), *option, "--whole-connections")
    assert packets_of(tmp_path / "out.pcapng") == all_of_them


def test_several_captures_become_one_in_order_of_time(tmp_path: Path) -> None:
    packets = packets_of(path("basics"))
    halves = packets[: len(packets) // 2], packets[len(packets) // 2 :]
    for name, half in zip("ba", halves, strict=True):  # the folder lists the later one first
        made = [Packet(data, time_ns) for time_ns, data in half]
        (tmp_path / f"{name}.pcap").write_bytes(pcap_file(made))
    found = extract(tmp_path, tmp_path / "a.pcap", tmp_path / "b.pcap", "--api", "Fetch")
    of_two = packets_of(tmp_path / "out.pcapng")
    assert_found(
        [row for row in kanalyze.requests(path("basics")) if row.api_name == "Fetch"], found
    )
    extract(tmp_path, path("basics"), "--api", "Fetch")
    assert of_two == packets_of(tmp_path / "out.pcapng")


def test_comments_and_the_name_of_the_interface_stay(tmp_path: Path) -> None:
    packets = packets_of(path("basics"))
    comments = {number: [f"seen {number}"] for number in range(len(packets))}
    batch = make_batch([Packet(data, time_ns) for time_ns, data in packets])
    blocks = PacketBlocks(batch, PacketComments.of(comments))
    interface = interface_description(1, name="eth7", packet_filter="port 9092")
    capture = tmp_path / "in.pcapng"
    capture.write_bytes(section_header() + interface + blocks.encoded({1: 0}))
    extract(tmp_path, capture, "--api", "Produce")
    with MergedCaptures([str(tmp_path / "out.pcapng")]) as captures:
        written = sum(len(batch) for batch in captures.batches())
        about = captures.description
    own = [each for each in about.comments if each.text.startswith("seen ")]
    assert len(own) == written
    assert any(each.text.startswith("Produce v") for each in about.comments)
    assert [each.text for each in about.interfaces] == ["eth7, filter: port 9092"]


def test_all_fragments_of_a_datagram_are_copied(tmp_path: Path) -> None:
    whole = packets_of(path("basics"))
    packets = [disorder.Packet(time_ns, data, len(data), 1) for time_ns, data in whole]
    made = fragmented(packets, random.Random(1))
    capture = tmp_path / "in.pcap"
    capture.write_bytes(pcap_file(Packet(each.data, each.time_ns) for each in made))
    found = extract(tmp_path, capture, "--api", "Produce")
    assert_found(rows_of("basics", "Produce"), found)


def test_without_a_match_there_is_no_file(tmp_path: Path, capsys) -> None:
    assert extract(tmp_path, path("basics"), "--client-id", "nobody") == []
    assert not (tmp_path / "out.pcapng").exists()
    assert "no requests match --client-id nobody" in capsys.readouterr().err


def test_an_input_that_can_be_read_only_once_is_refused(tmp_path: Path, capsys) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    target = tmp_path / "out.pcapng"
    assert main(["extract", "-o", str(target), str(pipe)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "save what comes through a pipe to a file" in message


def test_a_capture_is_replaced_only_with_force_and_is_private(tmp_path: Path) -> None:
    target = tmp_path / "out.pcapng"
    arguments = ["extract", "-o", str(target), str(path("basics"))]
    assert main(arguments) == 0
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IRUSR | stat.S_IWUSR
    assert main(arguments) == 2
    assert main([*arguments, "--force", "--api", "Produce"]) == 0
    assert {row.api_name for row in kanalyze.requests(target)} >= {"Produce"}
    assert main(["extract", "--force", "-o", str(target), str(target)]) == 2


def test_the_library_writes_the_same_file_as_the_command(tmp_path: Path) -> None:
    extract(tmp_path, path("groups"), "--api", "SyncGroup", "--around", "1s", "--with-handshake")
    target = tmp_path / "library.pcapng"
    options: dict[str, Any] = {"api": "SyncGroup", "with_handshake": True}
    found = kanalyze.extract(path("groups"), output=target, around=timedelta(seconds=1), **options)
    assert target.read_bytes() == (tmp_path / "out.pcapng").read_bytes()
    assert found.packets == len(packets_of(target))
    with pytest.raises(kanalyze.UsageError, match="is a capture"):
        kanalyze.extract(path("groups"), output=target, **options)
    with pytest.raises(kanalyze.UsageError, match="around: not a duration"):
        kanalyze.extract(path("groups"), output=target, around="2", **options)
    nothing = kanalyze.extract(path("groups"), output=target, client_id="nobody", force=True)
    assert (nothing.requests, nothing.packets) == (0, 0)


@pytest.mark.usefixtures("all_findings")
def test_all_requests_of_a_finding_are_extracted(tmp_path: Path) -> None:
    """The finding says 14; the first was refused before the second was sent."""
    found = extract(tmp_path, path("fault-few-replicas"), "--finding", "not_enough_replicas")
    whole = [row for row in kanalyze.requests(path("fault-few-replicas")) if row.errors]
    assert without_numbers(found) == without_numbers(whole)
    assert len(found) == 14


@pytest.mark.usefixtures("all_findings")
def test_connections_that_were_cut_are_extracted_with_their_end(tmp_path: Path) -> None:
    """After the idle time there is no request, only the packets that close the connection."""
    extract(tmp_path, path("fault-idle-240"), "--finding", "idle_cut")
    [cut] = kanalyze.connections(tmp_path / "out.pcapng")
    [whole] = [
        row
        for row in kanalyze.connections(path("fault-idle-240"))
        if (row.connection, row.connection_number) == (cut.connection, cut.connection_number)
    ]
    assert cut.closed_by == "broker"
    assert (cut.start_ns, cut.closed_ns) == (whole.start_ns, whole.closed_ns)
    assert cut.client_packets == whole.client_packets


@pytest.mark.usefixtures("all_findings")
def test_the_connections_of_a_finding_need_no_request(tmp_path: Path) -> None:
    """No host answers at the address that a broker advertises: there are only SYNs."""
    assert extract(tmp_path, path("fault-wrong-listener"), "--finding", "wrong_listener") == []
    whole = {
        (row.connection, row.start_ns, row.client_packets, row.broker_packets)
        for row in kanalyze.connections(path("fault-wrong-listener"))
    }
    found = list(kanalyze.connections(tmp_path / "out.pcapng"))
    assert found
    assert {row.requests for row in found} <= {None, 0}
    assert {
        (row.connection, row.start_ns, row.client_packets, row.broker_packets) for row in found
    } <= whole


def test_an_unknown_finding_is_refused(tmp_path: Path, capsys) -> None:
    target = str(tmp_path / "x.pcapng")
    assert main(["extract", "-o", target, "--finding", "nope", str(path("basics"))]) == 2
    assert "no finding is named 'nope'; there are late_heartbeats, " in capsys.readouterr().err
    assert main(["extract", "-o", target, "--finding", "unanswered", str(path("basics"))]) == 0
    assert "no requests match --finding unanswered" in capsys.readouterr().err


@pytest.mark.usefixtures("all_findings")
def test_a_finding_about_missing_packets_cannot_be_extracted(tmp_path: Path, capsys) -> None:
    target = tmp_path / "x.pcapng"
    arguments = ["-o", str(target), "--finding", "capture_lost_packets", str(path("basics"))]
    assert main(["extract", *arguments]) == 2
    assert "data that the capture lacks: there are no packets to extract" in capsys.readouterr().err
    assert not target.exists()


def without_numbers(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return sorted((key(row), *(getattr(row, name) for name in OWN_COLUMNS)) for row in rows)


@pytest.mark.parametrize("name", often(tls_captures.READABLE, tls_captures.READABLE[:3]))
def test_decrypted_connections_stay_encrypted_in_the_file_and_can_be_decrypted(
    tmp_path: Path, capsys, name: str
) -> None:
    keys = ("--keylog", tls_captures.keylog(name))
    whole = list(kanalyze.requests(tls_captures.path(name), keylog=tls_captures.keylog(name)))
    api = next(row.api_name for row in reversed(whole) if row.api_name is not None)
    assert extract(tmp_path, tls_captures.path(name), *keys, "--api", api) == []
    assert "TLS packets stay encrypted" in capsys.readouterr().err
    target = tmp_path / "out.pcapng"
    found = list(kanalyze.requests(target, keylog=tls_captures.keylog(name), api=api))
    assert_found([row for row in whole if row.api_name == api], found)


def test_secrets_of_the_copied_sessions_are_included_on_request(tmp_path: Path, capsys) -> None:
    name, other = "tls13-aes128gcm", "tls13-aes256gcm"
    capture, keys = tls_captures.path(name), tls_captures.keylog(name)
    other_keys = tls_captures.keylog(other)
    both = ("--keylog", keys, "--keylog", other_keys)
    whole = list(kanalyze.requests(capture, keylog=keys))
    client = next(row.client_id for row in whole if row.client_id)
    found = extract(tmp_path, capture, *both, "--client-id", client, "--with-secrets")
    assert capsys.readouterr().err == ""
    chosen = [row for row in whole if row.client_id == client]
    assert_found(chosen, found)
    with MergedCaptures([str(tmp_path / "out.pcapng")]) as captures:
        for _ in captures.batches():
            pass
        (secrets,) = captures.description.decryption_secrets
    included_lines = set(secrets.data.lower().splitlines())
    assert included_lines <= set(keys.read_bytes().lower().splitlines())
    assert not included_lines & set(other_keys.read_bytes().lower().splitlines())
    connections = {row.connection for row in found}
    assert len({line.split()[1] for line in included_lines}) == len(connections)
