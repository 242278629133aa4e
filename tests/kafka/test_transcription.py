"""The packaged definitions and tables are what the tool writes, to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.facts import FOLDER
from tools import transcribe_definitions as tool

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "kanalyze" / "kafka" / "schema"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


def test_the_tool_writes_what_is_packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "PACKAGE", tmp_path)
    assert tool.main([str(FOLDER / "messages.txt")]) == 0
    assert contents(tmp_path / "definitions") == contents(PACKAGE / "definitions")
    assert len(contents(tmp_path / "definitions")) == 95 + 2 + 11
    superseded = contents(tmp_path / "definitions" / "superseded")
    assert superseded == contents(PACKAGE / "definitions" / "superseded")
    assert len(superseded) == 4
    for name in ("api_table.py", "error_table.py"):
        assert (tmp_path / name).read_bytes() == (PACKAGE / name).read_bytes()


def test_the_tool_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main([]) == 2
    assert capsys.readouterr().err.startswith("usage: ")


def test_definitions_are_readable_lines() -> None:
    for content in contents(PACKAGE / "definitions").values():
        assert max(map(len, content.decode().splitlines())) <= tool.WIDTH


def test_a_struct_that_is_used_twice_is_written_once() -> None:
    text = (PACKAGE / "definitions" / "024_AddPartitionsToTxn.json").read_text()
    assert text.count('"name": "AddPartitionsToTxnTopic", "fields"') == 1
