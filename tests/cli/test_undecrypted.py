"""Every command says how many connections with TLS it could not read, and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kanalyze.cli.main import main
from kanalyze.common import forked
from kanalyze.runtime import stages
from kanalyze.tls import keylog
from tests.support import tls_captures

if TYPE_CHECKING:
    from pathlib import Path

CLIENTS = "tls12-clients"
COMMANDS = [
    *("requests", "records", "decode", "anomalies", "connections", "save -o {folder}/a.duckdb"),
    *("report", "extract -o {folder}/a.pcapng", "requests --api Fetch"),
]
QUERY = "SELECT count(*) FROM requests"
NO_SECRET = "17 of 21 TLS connections not decrypted: 17 no secret in the key log"


@pytest.fixture(autouse=True)
def _without_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSLKEYLOGFILE", raising=False)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """All that a command prints, without its line breaks."""
    assert main([*words]) == 0
    captured = capsys.readouterr()
    return " ".join((captured.out if words[0] == "report" else captured.err).split())


@pytest.mark.parametrize("command", COMMANDS)
def test_connections_without_a_secret_are_counted(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The key log of one of several clients."""
    file = str(tls_captures.path(CLIENTS))
    words = [*command.format(folder=tmp_path).split(), file]
    keys = file.replace(".pcap", ".java.keys")
    assert NO_SECRET in said(capsys, *words, "--keylog", keys)
    # With all secrets there is nothing to say.
    for made in tmp_path.iterdir():
        made.unlink()
    text = said(capsys, *words, "--keylog", str(tls_captures.keylog(CLIENTS)))
    assert "not decrypted" not in text


def test_queries_and_comparisons_count_them_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = str(tls_captures.path(CLIENTS))
    keys = ["--keylog", file.replace(".pcap", ".java.keys")]
    assert NO_SECRET in said(capsys, "sql", *keys, file, QUERY)
    saved = str(tmp_path / "saved.duckdb")
    said(capsys, "save", *keys, file, "-o", saved)
    for words in (["requests", saved], ["sql", saved, QUERY], ["report", saved]):
        assert NO_SECRET in said(capsys, *words)
    text = said(capsys, "compare", saved, str(tls_captures.path("tls13-sasl")))
    assert f"A: {NO_SECRET}" in text
    assert "B: " in text
    assert "TLS connections not decrypted: give a key log" in text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no workers here")
def test_workers_count_as_one_process_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "_MIN_BYTES", 0)
    file = str(tls_captures.path(CLIENTS))
    keys = file.replace(".pcap", ".java.keys")
    assert NO_SECRET in said(capsys, "requests", "--jobs", "2", file, "--keylog", keys)


def with_another_secret(name: str, folder: Path) -> Path:
    """The key log of a capture with secrets of the right sessions that do not fit."""
    lines = tls_captures.keylog(name).read_text().splitlines()
    words = [line.split() for line in lines if not line.startswith(("#", "RSA"))]
    wrong = folder / "wrong.keys"
    wrong.write_text("".join(f"{a} {b} {c[::-1]}\n" for a, b, c in words))
    return wrong


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tls10-and-11", "2 of 2 TLS connections not decrypted: 2 the TLS version or"),
        ("tls12-expired", "4 of 4 TLS connections not decrypted: 4 closed before anything was"),
        ("tls12-late", "1 of 1 TLS connection not decrypted: 1 the handshake was not captured"),
    ],
)
def test_each_reason_is_named(name: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, keys = str(tls_captures.path(name)), str(tls_captures.keylog(name))
    for command in ("requests", "report", "connections"):
        text = said(capsys, command, file, "--keylog", keys)
        assert reason in text
        assert "give a key log" not in text


def test_a_secret_that_does_not_fit_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    keys = str(with_another_secret("tls13-sasl", tmp_path))
    text = said(capsys, "requests", str(tls_captures.path("tls13-sasl")), "--keylog", keys)
    assert "the secret in the key log does not fit" in text


def test_secrets_inside_a_capture_ask_for_the_package(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tls_captures.path("tls13-kcat-embedded"))
    assert "not decrypted" not in said(capsys, "requests", file)
    monkeypatch.setattr(keylog, "are_ciphers_installed", lambda: False)
    text = said(capsys, "requests", file)
    assert "pip install 'kanalyze[tls]'" in text
    assert "give a key log" not in text
    assert stages.NOT_INSTALLED not in text
