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
    *("model/__init__", "model/anomalies", "model/packet_arrays", "model/packets"),
    *("model/streams", "model/tcp"),
}


def modules() -> Iterable[str]:
    for file in PACKAGE.rglob("*.py"):
        yield str(file.relative_to(PACKAGE).with_suffix(""))


def test_every_module_is_of_a_stage() -> None:
    assert {name for name in modules() if stage_of(name) == "other"} == NO_STAGE


def test_every_name_of_a_stage_is_the_beginning_of_a_module() -> None:
    known = ["start-up", *modules()]
    beginnings = [each for all_ in STAGES.values() for each in all_]
    assert [each for each in beginnings if not any(n.startswith(each) for n in known)] == []


def test_the_longest_beginning_holds() -> None:
    assert stage_of("net/headers") == "headers"
    assert stage_of("net/tcp/reassembly") == "reassembly"
    assert stage_of("kafka/framing/framer") == "framing"
    assert stage_of("kafka/codec/machine") == "decode"


def test_the_sampler_finds_what_is_at_work(tmp_path: Path) -> None:
    target, rows = tmp_path / "seconds.json", tmp_path / "rows.csv"
    words = ["requests", str(FOLDER / "basics.pcap"), "-o", str(rows)]
    command = [sys.executable, "-m", "benchmarks.sampler", str(target), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seconds = json.loads(target.read_text())
    assert rows.stat().st_size > 0
    assert min(seconds.values()) > 0
    assert {"start-up", "rows", "decode"} <= {stage_of(module) for module in seconds}
