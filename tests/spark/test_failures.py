from __future__ import annotations

import socket

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.spark.failures import _INSTALL, SparkFailure, Work, failures_in_one_line
from kanalyze.version import __version__

IN_A_TASK = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "somewhere.py", line 7, in rebuild
    raise StateError("the state is damaged")
{error}
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
"""


def line_of(error: Exception) -> str:
    with pytest.raises(KanalyzeError) as caught, failures_in_one_line():
        raise error
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            IN_A_TASK.format(error="kanalyze.runtime.state.StateError: the state is damaged"),
            "the state is damaged",
        ),
        (
            IN_A_TASK.format(error="ZeroDivisionError: division by zero"),
            "Spark: ZeroDivisionError: division by zero",
        ),
        (
            IN_A_TASK.format(error="ModuleNotFoundError: No module named 'kanalyze'"),
            f"a worker has no kanalyze: {_INSTALL}",
        ),
        ("[SOME_CLASS] no such thing\nmore", "Spark: [SOME_CLASS] no such thing"),
        (
            "Job aborted.\nCaused by: java.io.IOException: No space left on device\n\t... 3 more",
            "Spark: IOException: No space left on device",
        ),
        ("", "Spark: PySparkException"),
    ],
)
def test_a_spark_failure_is_reported_in_one_line(text, line):
    assert line_of(PySparkException(text)) == line


def test_a_lost_jvm_is_reported_in_one_line():
    assert line_of(Py4JError("Answer from Java side is empty")) == (
        "Spark: Answer from Java side is empty"
    )


def test_a_worker_with_another_version_is_named_in_one_line(spark, monkeypatch):
    def run(batches):
        yield from batches

    assert spark.range(3).mapInArrow(Work(run), "id long").count() == 3
    monkeypatch.setattr("kanalyze.spark.failures.__version__", "0.0.9")
    work = Work(run)
    monkeypatch.undo()
    with pytest.raises(SparkFailure) as caught, failures_in_one_line():
        spark.range(3).mapInArrow(work, "id long").collect()
    assert str(caught.value) == (
        f"{socket.gethostname()} has kanalyze {__version__}, and the driver has 0.0.9: {_INSTALL}"
    )


def test_other_errors_are_raised_unchanged():
    assert line_of(UsageError("x")) == "x"
    with pytest.raises(ZeroDivisionError), failures_in_one_line():
        raise ZeroDivisionError


def test_an_error_raised_in_a_task_is_reported_in_one_line(spark):
    def fail(batches):
        for _ in batches:
            raise UsageError("what the task says")
        yield

    with pytest.raises(SparkFailure, match=r"^what the task says$"), failures_in_one_line():
        spark.range(3).mapInArrow(fail, "x int").collect()
