"""Key logs on the command line: valid files, errors, and no secret in any message."""

from __future__ import annotations

import json
import os

import duckdb
import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.common import forked
from kanalyze.errors import UsageError
from kanalyze.tls import keylog
from tests.support import tls_captures

NAME = "tls13-aes128gcm"
CAPTURE = str(tls_captures.path(NAME))
KEYS = str(tls_captures.keylog(NAME))
REQUESTS = len(tls_captures.read_by_tshark(NAME))
SECRETS = [line.split()[-1] for line in tls_captures.keylog(NAME).read_text().splitlines()]
JSON_LINES = ["--format", "jsonl"]


@pytest.fixture(autouse=True)
def _without_variable(monkeypatch):
    monkeypatch.delenv("SSLKEYLOGFILE", raising=False)


def lines(capsys, *argv: str) -> list[str]:
    assert main([*argv]) == 0
    return capsys.readouterr().out.splitlines()


def error_of(capsys, *argv: str) -> str:
    assert main([*argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (message,) = [line for line in captured.err.splitlines() if "not compiled" not in line]
    assert message.startswith("kanalyze: ")
    assert not any(secret in captured.err for secret in SECRETS)
    return captured.err


def test_several_key_logs_are_combined(capsys, tmp_path):
    key_lines = tls_captures.keylog(NAME).read_text().splitlines(keepends=True)
    parts = [tmp_path / "a.keys", tmp_path / "b.keys"]
    for part, first in zip(parts, (0, 1), strict=True):
        part.write_text("".join(key_lines[first::2]))
    options = [option for part in parts for option in ("--keylog", str(part))]
    assert len(lines(capsys, "requests", *JSON_LINES, *options, CAPTURE)) == REQUESTS


@pytest.mark.few(3)
@pytest.mark.parametrize("command", ["decode", "connections", "anomalies", "report", "records"])
def test_other_commands_decrypt_and_show_no_secret(command, capsys):
    argv = [command, "--keylog", KEYS, CAPTURE]
    text = "\n".join(lines(capsys, *argv, *(["--values"] if command == "records" else [])))
    assert not any(secret in text for secret in SECRETS)
    if command != "anomalies":
        assert text
        assert text != "\n".join(lines(capsys, command, CAPTURE))


def test_a_query_and_a_saved_file_have_decrypted_requests(capsys, tmp_path):
    query = "SELECT count(*) AS n FROM requests"
    answer = lines(capsys, "sql", *JSON_LINES, "--keylog", KEYS, CAPTURE, query)
    assert json.loads(answer[0]) == {"n": REQUESTS}
    saved = tmp_path / "saved.duckdb"
    assert main(["save", "-o", str(saved), "--keylog", KEYS, CAPTURE]) == 0
    assert len(lines(capsys, "requests", *JSON_LINES, str(saved))) == REQUESTS
    with duckdb.connect(str(saved), read_only=True) as file:
        header = dict(file.execute("SELECT name, value FROM stored.header").fetchall())
    assert json.loads(header["options"])["key_logs"] == [f"{NAME}.keys"]
    assert KEYS not in "".join(header.values())
    data = saved.read_bytes()
    assert not any(secret.encode() in data or bytes.fromhex(secret) in data for secret in SECRETS)
    assert "--keylog has no effect" in error_of(capsys, "requests", "--keylog", KEYS, str(saved))


def test_compare_decrypts_its_captures(capsys):
    output = lines(capsys, "compare", "--format", "json", "--keylog", KEYS, CAPTURE, CAPTURE)
    comparison = json.loads("\n".join(output))
    assert str(REQUESTS) in json.dumps(comparison)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no workers here")
def test_workers_decrypt_as_one_process_does(capsys, monkeypatch):
    monkeypatch.setattr(forked, "_MIN_BYTES", 0)
    argv = ["requests", *JSON_LINES, "--keylog", KEYS, CAPTURE]
    of_one_process = lines(capsys, *argv, "--jobs", "1")
    assert lines(capsys, *argv, "--jobs", "2") == of_one_process
    assert len(of_one_process) == REQUESTS


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        (b"hello\nworld\n", "not a TLS key log"),
        (b"\0" * 5000, "not a TLS key log"),
        (b"-----BEGIN KEY-----\nAA\n", "not a TLS key log"),
        ("".join(f"NO_LABEL {'0' * 64} {each}\n" for each in SECRETS).encode(), "not a TLS key"),
    ],
)
def test_a_file_that_is_no_key_log_is_reported(content, problem, capsys, tmp_path):
    wrong = tmp_path / "wrong.keys"
    if content is not None:
        wrong.write_bytes(content)
    message = error_of(capsys, "report", "--keylog", str(wrong), CAPTURE)
    assert f"{wrong}: {problem}" in message
    assert "directory" in error_of(capsys, "report", "--keylog", str(tmp_path), CAPTURE)


def test_without_ciphers_the_error_names_the_extra_to_install(capsys, monkeypatch):
    monkeypatch.setattr(keylog, "are_ciphers_installed", lambda: False)
    err = error_of(capsys, "requests", "--keylog", KEYS, CAPTURE)
    assert "kanalyze[tls]" in err


def test_the_environment_variable_names_a_key_log(capsys, monkeypatch):
    monkeypatch.setenv("SSLKEYLOGFILE", KEYS)
    assert len(lines(capsys, "requests", *JSON_LINES, CAPTURE)) == REQUESTS


def test_the_option_overrides_the_environment_variable(capsys, monkeypatch):
    monkeypatch.setenv("SSLKEYLOGFILE", KEYS)
    other = str(tls_captures.keylog("tls-no-suite"))
    assert lines(capsys, "requests", *JSON_LINES, "--keylog", other, CAPTURE) == []


@pytest.mark.parametrize("exists", [True, False])
def test_an_environment_variable_with_an_unusable_file_is_ignored(
    exists, capsys, monkeypatch, tmp_path
):
    wrong = tmp_path / "wrong.keys"
    if exists:
        wrong.write_text("no key log\n")
    monkeypatch.setenv("SSLKEYLOGFILE", str(wrong))
    assert main(["requests", *JSON_LINES, "captures/basics.pcap"]) == 0
    captured = capsys.readouterr()
    assert captured.out
    assert ("SSLKEYLOGFILE is ignored: " in captured.err) == exists


@pytest.mark.parametrize(
    ("keylog", "message"),
    [
        (7, "keylog: not a path: 7"),
        ("no.keys", "keylog: no.keys: "),
        ("a\0b", "keylog: not a p"),
    ],
)
def test_the_library_refuses_an_invalid_key_log(keylog, message):
    with pytest.raises(UsageError, match=message):
        kanalyze.requests(CAPTURE, keylog=keylog)


def test_the_library_takes_one_path_or_several():
    one = list(kanalyze.requests(CAPTURE, keylog=KEYS))
    assert list(kanalyze.requests(CAPTURE, keylog=[tls_captures.keylog(NAME), KEYS])) == one
    assert len(one) == REQUESTS
    assert list(kanalyze.requests(CAPTURE, keylog=None)) == []
