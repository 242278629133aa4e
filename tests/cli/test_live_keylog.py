"""``kanalyze live --keylog``: late secrets, missing secrets, and no secrets in outputs."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
import urllib.request
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.cli.test_live import in_order, started, wait_until_read
from tests.support import tls_captures
from tests.support.packets import Blocks, secrets_block
from tests.support.scraping import served_at
from tests.support.tls_sockets import PCAP_HEADER, Broker, Client, Relay
from tests.support.waiting import LONG_S, wait_until

ROWS = ["-", "--format", "rows"]
NAME = "tls13-aes128gcm"
FEW = [NAME, "tls12-aes256cbc-sha1"]
# tls13-sasl is missing: its last secrets come 30 s late, and no connection waits so long.
MORE = ["tls12-aes128gcm", "tls12-chacha20", "tls13-clients", "tls12-clients"]
OTHER_KEYS = tls_captures.keylog("tls-no-suite")


@pytest.fixture(autouse=True)
def _without_variable(monkeypatch):
    monkeypatch.delenv("SSLKEYLOGFILE", raising=False)


def data_of(name: str) -> bytes:
    return tls_captures.path(name).read_bytes()


@cache
def rows_of(name: str) -> list[dict[str, object]]:
    """Return the rows of ``requests`` for a capture with its key log."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "rows.jsonl")
        argv = ["requests", "-o", str(file), "--keylog", str(tls_captures.keylog(name))]
        assert main([*argv, str(tls_captures.path(name))]) == 0
        rows = in_order(file.read_bytes().splitlines())
    assert len(rows) == len(tls_captures.read_by_tshark(name)) > 0
    return rows


def secret_forms(name: str) -> list[bytes]:
    """Return the secrets of a key log, in every form in which they may be written."""
    words = [line.split()[-1] for line in tls_captures.keylog(name).read_text().splitlines()]
    secrets = [bytes.fromhex(word.rpartition(":")[2]) for word in words]
    forms = [(raw, raw.hex().encode(), base64.b64encode(raw)[:-4]) for raw in secrets]
    return [form for forms_of_secret in forms for form in forms_of_secret]


def assert_no_secret(name: str, *outputs: bytes) -> None:
    for output in outputs:
        lower = output.lower()
        for secret in secret_forms(name):
            assert secret not in output
            assert secret.lower() not in lower


# -- real ends ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_of_real_clients_are_decrypted_with_late_secrets(version, tmp_path):
    written, watched = tmp_path / "written.keys", tmp_path / "watched.keys"
    with (
        started(*ROWS, "--keylog", str(watched)) as live,
        Broker(version) as broker,
        Relay(broker.address, live.give) as relay,
    ):
        assert "does not exist yet" in live.error_line()
        live.give(PCAP_HEADER)
        with Client(relay.address, version, written) as first:
            for number in range(3):
                first.ask(number)
            # No packets come while the secrets are written.
            watched.write_bytes(written.read_bytes())
            rows = [json.loads(live.line()) for _ in range(3)]
            first.ask(3)
            rows.append(json.loads(live.line()))
        with Client(relay.address, version, written) as second:
            second.ask(100)
            second.ask(101)
        # The secrets come after the connection was closed, and first only a part of a line.
        added = written.read_bytes()[watched.stat().st_size :]
        for piece in (added[:50], added[50:]):
            with watched.open("ab") as file:
                file.write(piece)
        rows += [json.loads(live.line()) for _ in range(2)]
        live.input.close()
        status, lines, err = live.end()
    assert (status, lines, err) == (0, [], "")
    for client, client_rows in ((first, rows[:4]), (second, rows[4:])):
        assert [
            (row["correlation_id"], row["request_bytes"], row["response_bytes"])
            for row in client_rows
        ] == client.sent
        assert {row["client_port"] for row in client_rows} == {client.port}
    assert {(row["api_name"], row["status"], row["client_id"]) for row in rows} == {
        ("ApiVersions", "ok", "test")
    }
    assert all(row["latency_ns"] > 0 for row in rows)


# -- captures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [*FEW, *(pytest.param(name, marks=pytest.mark.long) for name in MORE)]
)
def test_a_capture_is_decrypted_with_late_secrets(name, tmp_path):
    data, keys = data_of(name), tls_captures.keylog(name).read_bytes()
    watched = tmp_path / "watched.keys"
    with started(*ROWS, "--keylog", str(watched), "--metrics", "0") as live:
        assert "does not exist yet" in live.error_line()
        half = len(data) // 2
        live.give(data[:half])
        wait_until_read(live, data[:half], tmp_path)
        watched.write_bytes(keys[: len(keys) // 2 + 30])
        live.give(data[half:])
        live.line()  # the first secrets were used
        with watched.open("ab") as file:
            file.write(keys[len(keys) // 2 + 30 :])
        live.input.close()
        status, lines, err = live.end()
    assert (status, err) == (0, "")
    assert len(lines) == len(rows_of(name)) - 1  # one line was read above
    assert all(row in rows_of(name) for row in in_order(lines))


@pytest.mark.parametrize("by_variable", [False, True])
def test_a_complete_key_log_is_used_from_the_beginning(by_variable, tmp_path):
    keys = str(tls_captures.keylog(NAME))
    options = [] if by_variable else ["--keylog", keys]
    with started(*ROWS, *options, **({"SSLKEYLOGFILE": keys} if by_variable else {})) as live:
        live.give(data_of(NAME))
        live.input.close()
        status, lines, err = live.end()
    assert (status, err) == (0, "")
    assert in_order(lines) == rows_of(NAME)


def embedded(name: str, *, secrets_before: int) -> bytes:
    """Return a pcapng file whose secrets come in the middle, before a packet."""
    blocks = Blocks()
    data = data_of(name)
    parts = [blocks.section(), blocks.interface(options=blocks.option(9, b"\x09"))]
    offset, number = 24, 0
    while offset < len(data):
        seconds, fraction, size, _ = (
            int.from_bytes(data[offset + 4 * n : offset + 4 * n + 4], "little") for n in range(4)
        )
        number += 1
        if number == secrets_before:
            parts.append(secrets_block(blocks, tls_captures.keylog(name).read_bytes()))
        ticks = seconds * 10**9 + fraction * (1 if data[0] == 0x4D else 1000)
        high_low = (ticks >> 32).to_bytes(4, "little") + (ticks & 0xFFFFFFFF).to_bytes(4, "little")
        packet = data[offset + 16 : offset + 16 + size]
        sizes = size.to_bytes(4, "little") * 2
        body = bytes(4) + high_low + sizes + packet + bytes(-size % 4)
        parts.append(blocks.block(6, body))
        offset += 16 + size
    return b"".join(parts)


@pytest.mark.parametrize("secrets_before", [1, 60])
def test_secrets_between_packets_of_a_pipe_are_used(secrets_before, tmp_path, run_live):
    data = embedded(NAME, secrets_before=secrets_before)
    done = run_live(*ROWS, data=data)
    assert (done.returncode, done.stderr) == (0, b"")
    rows = in_order(done.stdout.splitlines())
    assert rows == rows_of(NAME)
    argv = [sys.executable, "-m", "kanalyze", "requests", "--format", "jsonl", "-"]
    done = subprocess.run(argv, input=data, capture_output=True, check=True)
    assert in_order(done.stdout.splitlines()) == rows


def test_connections_that_are_not_decrypted_are_reported(tmp_path, run_live):
    done = run_live("-", "--keylog", str(OTHER_KEYS), data=data_of(NAME))
    assert done.returncode == 0
    messages = done.stderr.decode().splitlines()
    clients = {request.client for request in tls_captures.read_by_tshark(NAME)}
    for client in clients:
        (line,) = [line for line in messages if f"{client} " in line]
        assert line.endswith("TLS connection not decrypted: no secret in the key log")
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["rows"] == 0
    assert_no_secret("tls-no-suite", done.stdout, done.stderr)


def test_lines_count_encrypted_and_decrypted_connections(tmp_path):
    watched = tmp_path / "watched.keys"
    data = data_of("tls13-long")
    lines: list[bytes] = []
    with started("-", "--interval", "0.05", "--keylog", str(watched), "--metrics", "0") as live:
        assert "does not exist yet" in live.error_line()
        url = served_at(live.error_line())
        live.give(data[: len(data) // 2])

        def tls_counts() -> dict[str, int]:
            lines.append(live.line())
            counts: dict[str, int] = json.loads(lines[-1])["capture"]["tls"]
            return counts

        wait_until(lambda: tls_counts()["encrypted"] > 0, "a connection with TLS")
        watched.write_bytes(tls_captures.keylog("tls13-long").read_bytes())
        wait_until(lambda: tls_counts()["decrypted"] > 0, "a connection that is decrypted")
        with urllib.request.urlopen(url, timeout=LONG_S) as answer:
            metrics = answer.read()
        live.input.close()
        status, _, err = live.end()
    assert status == 0
    assert_no_secret("tls13-long", *lines, metrics, err.encode())


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--keylog", "."], "directory"),
        (["--keylog", "README.md"], "README.md: not a TLS key log"),
        (["--with-secrets"], "--with-secrets needs --save, which writes packets"),
        (["--write", str(OTHER_KEYS), "--keylog", str(OTHER_KEYS)], "is also an input"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(argv, message, capsys):
    assert main(["live", "-", *argv]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_an_environment_variable_with_an_unusable_file_is_ignored(tmp_path):
    wrong = tmp_path / "wrong.keys"
    wrong.write_text("no key log\n")
    with started(*ROWS, SSLKEYLOGFILE=str(wrong)) as live:
        assert live.error_line().startswith("kanalyze: SSLKEYLOGFILE is ignored: ")
        live.give(PCAP_HEADER)
        live.input.close()
        assert live.end() == (0, [], "")


# -- secrets --------------------------------------------------------------------------------------


def saved(run_live, tmp_path: Path, *options: str) -> tuple[bytes, str]:
    """Return what ``--save`` writes for all requests, and the standard error."""
    target = tmp_path / "saved.pcapng"
    argv = ["-", "--keylog", str(tls_captures.keylog(NAME)), "--save", str(target)]
    done = run_live(*argv, "--save-slower-than", "0ms", *options, data=data_of(NAME))
    assert done.returncode == 0
    assert_no_secret(NAME, done.stdout, done.stderr)
    return target.read_bytes(), done.stderr.decode()


def test_saved_packets_stay_encrypted_and_a_message_says_so(run_live, tmp_path):
    data, err = saved(run_live, tmp_path)
    assert "TLS packets stay encrypted; --with-secrets adds" in err
    assert_no_secret(NAME, data)
    assert list(kanalyze.requests(str(tmp_path / "saved.pcapng"))) == []


def test_with_secrets_the_saved_packets_can_be_decrypted(run_live, tmp_path):
    data, err = saved(run_live, tmp_path, "--with-secrets")
    assert "stay encrypted" not in err
    assert data.index(b"TRAFFIC_SECRET") < data.index(b"Metadata")  # a comment
    decrypted = kanalyze.requests(str(tmp_path / "saved.pcapng"))
    not_delayed = [row for row in rows_of(NAME) if row["latency_ns"] and not row["waited"]]
    assert {row.correlation_id for row in decrypted} >= {
        row["correlation_id"] for row in not_delayed
    }
    assert (tmp_path / "saved.pcapng").stat().st_mode & 0o077 == 0


def test_no_output_of_a_live_run_has_secrets(tmp_path, run_live):
    report, rows = tmp_path / "report.json", tmp_path / "rows"
    argv = [*ROWS, "--json", str(report), "--write", str(rows)]
    keys = str(tls_captures.keylog(NAME))
    done = run_live(*argv, "--keylog", keys, "--keylog", str(OTHER_KEYS), data=data_of(NAME))
    assert (done.returncode, done.stderr) == (0, b"")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    tables = [repr(pq.read_table(file).to_pylist()) for file in files if "parquet" in file.name]
    assert len(tables) > 0
    outputs = [done.stdout, report.read_bytes(), *(table.encode() for table in tables)]
    assert_no_secret(NAME, *outputs, *(file.read_bytes() for file in files))
    assert_no_secret("tls-no-suite", *outputs)
