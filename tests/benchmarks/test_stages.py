from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import kanalyze
from benchmarks.stages import STAGES, stage_of
from tests.support.captures import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable

PACKAGE = Path(kanalyze.__file__).parent
NO_STAGE = {
    *("__init__", "__main__", "errors", "version"),
    *("mcp/__init__", "mcp/server", "mcp/workbench"),
    *("model/__init__", "model/anomalies", "model/packet_arrays", "model/packets"),
}


def modules() -> Iterable[str]:
    for file in PACKAGE.rglob("*.py"):
        yield str(file.relative_to(PACKAGE).with_suffix(""))


def test_every_module_belongs_to_a_stage() -> None:
    assert {name for name in modules() if stage_of(name) == "other"} == NO_STAGE


def test_every_prefix_of_a_stage_matches_a_module() -> None:
    known = ["start-up", *modules()]
    prefixes = [prefix for stage_prefixes in STAGES.values() for prefix in stage_prefixes]
    assert [prefix for prefix in prefixes if not any(n.startswith(prefix) for n in known)] == []


def test_the_longest_prefix_decides() -> None:
    assert stage_of("net/headers") == "headers"
    assert stage_of("net/tcp/reassembly") == "reassembly"
    assert stage_of("kafka/framing/framer") == "framing"
    assert stage_of("kafka/codec/machine") == "decode"


def test_the_sampler_finds_the_modules_at_work(tmp_path: Path) -> None:
    target, rows = tmp_path / "seconds.json", tmp_path / "rows.csv"
    arguments = ["requests", str(FOLDER / "basics.pcap"), "-o", str(rows)]
    command = [sys.executable, "-m", "benchmarks.sampler", str(target), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seconds = json.loads(target.read_text())
    assert rows.stat().st_size > 0
    assert min(seconds.values()) > 0
    assert {"start-up", "rows", "decode"} <= {stage_of(module) for module in seconds}
