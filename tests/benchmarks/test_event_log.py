from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.event_log import OTHER, READ, REBUILD, Stage, conf, read_stages, stages_in

if TYPE_CHECKING:
    from pathlib import Path


def task(stage: int, python_ms: int = 0) -> str:
    times = [{"Name": "time to execute Python code", "Update": str(python_ms)}] if python_ms else []
    event: dict[str, Any] = {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Task Info": {"Accumulables": [{"Name": "duration", "Update": "9"}, *times]},
        "Task Metrics": {
            "Executor Run Time": 1500,
            "Executor CPU Time": 250_000_000,
        },
    }
    return json.dumps(event)


LOG = [
    json.dumps({"Event": "SparkListenerApplicationStart"}),
    task(0, python_ms=500),
    task(0, python_ms=250),
    task(1),
    task(3, python_ms=400),
    task(12),
    task(17, python_ms=30),
]


def test_tasks_are_summed_by_stage() -> None:
    first, second, third, *_ = read_stages(LOG)
    assert first == Stage(0, 2, 3.0, 0.5, 0.75, kind=READ)
    assert second == Stage(1, 1, 1.5, 0.25, 0.0)
    assert third == Stage(3, 1, 1.5, 0.25, 0.4, kind=REBUILD)


def test_python_work_after_rebuilding_has_no_kind() -> None:
    kinds = [stage.kind for stage in read_stages(LOG)]
    assert kinds == [READ, OTHER, REBUILD, OTHER, OTHER]


def test_tasks_that_failed_without_metrics_are_left_out() -> None:
    failed = json.dumps({"Event": "SparkListenerTaskEnd", "Stage ID": 0})
    assert read_stages([failed]) == []


def test_a_folder_must_have_exactly_one_event_log(tmp_path: Path) -> None:
    assert conf(tmp_path)["spark.eventLog.dir"] == tmp_path.as_uri()
    (tmp_path / ".local-1.crc").write_bytes(b"\0")
    with pytest.raises(BenchmarkError, match="0 event logs"):
        stages_in(tmp_path)
    (tmp_path / "local-1").write_text("\n".join(LOG))
    assert len(stages_in(tmp_path)) == 5
    (tmp_path / "local-2").touch()
    with pytest.raises(BenchmarkError, match="2 event logs"):
        stages_in(tmp_path)
