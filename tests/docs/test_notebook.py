"""The tutorial notebook: its cells run from top to bottom, and say what stands in it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import kanalyze
from tests.support.captures import ROOT, path

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_its_cells_run_and_say_what_stands_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(path("fault-slow-broker"), tmp_path / "broker.pcap")
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "docs" / "guides" / "notebook.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    for cell in cells:
        exec("".join(cell["source"]), names)
        said = "".join(text for output in cell["outputs"] for text in output["text"])
        assert capsys.readouterr().out == said
    assert any(cell["outputs"] for cell in cells)
    assert isinstance(names["report"], kanalyze.Report)
