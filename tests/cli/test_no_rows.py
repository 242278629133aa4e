"""If no rows are written, a message says why and what to try."""

from __future__ import annotations

import shutil

import pytest

from kanalyze.cli.main import main
from tests.support.captures import path
from tests.support.packets import Packet, pcap_file

COMMANDS = {
    "requests": "requests",
    "requests --format csv": "requests",
    "requests --format jsonl": "requests",
    "records": "records",
    "decode": "requests",
    "decode --format text": "requests",
    "connections": "connections",
    "anomalies": "anomalies",
}
GIVE_KEY_LOG = "25 TLS connections not decrypted: give a key log (--keylog FILE)"
NO_KAFKA = "no Kafka requests found"


def message_of(capsys, *argv: str) -> str:
    assert main(argv) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_message_names_filters_that_match_nothing(command, capsys):
    options = ["--client-ip", "192.0.2.1", "--until", "2026-11-21"]
    line = message_of(capsys, *command.split(), *options, str(path("basics")))
    rows = COMMANDS[command]
    assert line == f"kanalyze: no {rows} match --client-ip 192.0.2.1 --until 2026-11-21\n"


def test_the_message_names_filters_of_all_kinds(capsys):
    options = ["--api", "Fetch", "--api", "0", "--errors", "--topic", "no such"]
    options += ["--slower-than", "1h"]
    assert message_of(capsys, "requests", *options, str(path("basics"))) == (
        "kanalyze: no requests match --api Fetch --api 0 --topic 'no such' --errors"
        " --slower-than 1h\n"
    )
    kind = ["--kind", "reorder_limit"]
    assert message_of(capsys, "anomalies", *kind, str(path("basics"))) == (
        "kanalyze: no anomalies match --kind reorder_limit\n"
    )


def test_the_message_names_a_search_without_matches(capsys):
    options = ["--search", "no such bytes", "--topic", "basics-*"]
    assert message_of(capsys, "records", *options, str(path("basics"))) == (
        "kanalyze: no records match --topic 'basics-*' --search\n"
    )


@pytest.mark.few(4)
@pytest.mark.parametrize("command", COMMANDS)
def test_with_rows_there_is_no_message(command, capsys):
    assert message_of(capsys, *command.split(), str(path("basics"))) == ""


@pytest.mark.parametrize("command", ["requests --errors", "records", "decode"])
def test_the_message_about_encrypted_connections_says_what_to_try(command, capsys):
    assert message_of(capsys, *command.split(), str(path("tls"))) == (
        f"kanalyze: {NO_KAFKA}; {GIVE_KEY_LOG}\n"
    )


@pytest.mark.parametrize("command", ["connections", "anomalies"])
def test_the_message_says_that_a_capture_has_no_packets(command, tmp_path, capsys):
    (tmp_path / "a.pcap").write_bytes(pcap_file([]))
    assert (
        message_of(capsys, command, str(tmp_path / "a.pcap")) == f"kanalyze: no {command} found\n"
    )
    assert message_of(capsys, "requests", str(tmp_path / "a.pcap")) == (
        f"kanalyze: {NO_KAFKA}; there are no packets\n"
    )


def test_the_message_says_that_a_capture_has_no_tcp_connection(tmp_path, capsys):
    (tmp_path / "a.pcap").write_bytes(pcap_file([Packet(b"x" * 60, 1_000)]))
    assert message_of(capsys, "requests", str(tmp_path / "a.pcap")) == (
        f"kanalyze: {NO_KAFKA}; there is no TCP connection\n"
    )


def test_a_file_without_rows_is_written(tmp_path, capsys):
    out = tmp_path / "rows.csv"
    shutil.copy(path("tls"), tmp_path / "a.pcap")
    assert message_of(capsys, "requests", "-o", str(out), str(tmp_path / "a.pcap")) == (
        f"kanalyze: {NO_KAFKA}; {GIVE_KEY_LOG}\n"
    )
    assert out.read_text().count("\n") == 1
