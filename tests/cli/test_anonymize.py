"""``kanalyze anonymize``: its messages and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.cli.main import main
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_line_counts_packets_messages_and_connections(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.pcapng"
    assert main(["anonymize", "-o", str(target), str(path("any"))]) == 0
    expected = f"{target}: 151 packets, 57 messages on 9 Kafka connections\n"
    assert capsys.readouterr().out == expected
    assert main(["anonymize", "--force", "-o", str(target), str(path("snaplen"))]) == 0
    assert "30 could not be read to the end" in capsys.readouterr().out


def test_a_key_may_be_in_a_file(tmp_path: Path) -> None:
    key, outputs = tmp_path / "key.txt", []
    key.write_text("a secret\n")
    for number, option in enumerate(("a secret", f"@{key}", "another secret")):
        target = tmp_path / f"{number}.pcapng"
        assert main(["anonymize", "--key", option, "-o", str(target), str(path("any"))]) == 0
        outputs.append(target.read_bytes())
    assert outputs[0] == outputs[1] != outputs[2]


def test_passwords_that_extract_copies_are_blanked(tmp_path: Path) -> None:
    password, capture = b"\0alice\0alice-secret", path("sasl")
    assert password in capture.read_bytes()
    cut, shared = tmp_path / "cut.pcapng", tmp_path / "shared.pcapng"
    assert main(["extract", "--api", "Produce", "-o", str(cut), str(capture)]) == 0
    assert password not in cut.read_bytes()
    arguments = ["extract", "--api", "Produce", "--with-handshake", "--force", "-o", str(cut)]
    assert main([*arguments, str(capture)]) == 0
    assert password in cut.read_bytes()
    for source in (capture, cut):
        assert main(["anonymize", "--force", "-o", str(shared), str(source)]) == 0
        assert b"-secret" not in shared.read_bytes()
