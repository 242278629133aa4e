"""What Spark's event log tells of the stages of an application.

In: a log, not compressed, of one file. Out: :class:`Stage`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

READ, REBUILD, OTHER = "read", "rebuild", "other"
_MS_PER_S = 1_000
_NS_PER_S = 1_000_000_000
_PYTHON_TIME = "time to execute Python code"


@dataclass(slots=True)
class Stage:
    """What the tasks of a stage took together."""

    number: int
    tasks: int = 0
    run_s: float = 0.0
    """While tasks ran: of the JVM and of the Python worker that it waits for."""
    jvm_cpu_s: float = 0.0
    """Of the threads of tasks in the JVM."""
    python_s: float = 0.0
    """While Python worked, told in milliseconds a task."""
    kind: str = OTHER
    """What of a batch it is."""


def conf(folder: Path) -> dict[str, str]:
    """Return the settings of an application that is to write its log to a folder."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.resolve().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def stages_in(folder: Path) -> list[Stage]:
    """Return the stages of the application whose log is alone in a folder.

    Raises:
        BenchmarkError: there is none, or more than one; or the application did not end.
    """
    logs = [path for path in folder.iterdir() if path.is_file() and path.name[0] != "."]
    if len(logs) != 1 or logs[0].suffix == ".inprogress":
        raise BenchmarkError(f"{folder}: {len(logs)} event logs, or one without an end")
    with logs[0].open() as lines:
        return read_stages(lines)


def read_stages(lines: Iterable[str]) -> list[Stage]:
    """Return the stages of a log, by their numbers; those without tasks are left out."""
    stages: dict[int, Stage] = {}
    for line in lines:
        event = json.loads(line)
        if event["Event"] != "SparkListenerTaskEnd" or not event.get("Task Metrics"):
            continue
        number = event["Stage ID"]
        _add(stages.setdefault(number, Stage(number)), event)
    found = [stages[number] for number in sorted(stages)]
    _tell_kinds(found)
    return found


def _tell_kinds(stages: Sequence[Stage]) -> None:
    """Say what each is: first Python reads captures, then it rebuilds connections.

    Where a stage takes what Spark kept of an earlier one, Python is not at work. Stages after the
    second write what is left.
    """
    at_work = [stage for stage in stages if stage.python_s]
    for stage, kind in zip(at_work, (READ, REBUILD), strict=False):
        stage.kind = kind


def _add(stage: Stage, event: dict[str, Any]) -> None:
    metrics = event["Task Metrics"]
    stage.tasks += 1
    stage.run_s += metrics["Executor Run Time"] / _MS_PER_S
    stage.jvm_cpu_s += metrics["Executor CPU Time"] / _NS_PER_S
    stage.python_s += _python_s(event["Task Info"]["Accumulables"])


def _python_s(accumulables: Iterable[dict[str, Any]]) -> float:
    updates = (one["Update"] for one in accumulables if one["Name"] == _PYTHON_TIME)
    return sum(int(update) for update in updates) / _MS_PER_S
