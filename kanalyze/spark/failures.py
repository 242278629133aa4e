"""Turns the errors of Spark into one line, and says if a worker has another kanalyze.

In: errors of PySpark, whose texts contain the stack traces of two languages. Out: a KanalyzeError.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from kanalyze.errors import KanalyzeError
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

_RAISED: Final = re.compile(r"^([\w.]+(?:Error|Exception|Interrupt|Failure)): ?(.*)$")
"""The last line of a Python stack trace."""
_CAUSED_BY: Final = re.compile(r"^Caused by: ([\w.$]+): (.*)$")
_OURS: Final = "kanalyze."
_MISSING: Final = "No module named 'kanalyze"
_INSTALL: Final = "install the same on all workers, or send it with the job (docs/spark.md)"
_HIDE_STACK: Final = "SPARK_HIDE_TRACEBACK"


class SparkFailure(KanalyzeError):
    """A job of Spark failed."""


class OtherVersionError(KanalyzeError):
    """A worker has another version of kanalyze than the driver."""


class Work:
    """What tasks run; a worker unpickles it only if it has the same version of kanalyze.

    Another version may have other classes, and other results.
    """

    def __init__(self, run: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> None:
        """``run`` makes batches of those of a partition."""
        self._version = __version__
        self._pickled: bytes = cloudpickle.dumps(run)  # type: ignore[no-untyped-call]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run in a task; raises OtherVersionError, and what the work raises."""
        if self._version != __version__:
            raise OtherVersionError(
                f"{socket.gethostname()} has kanalyze {__version__}, and the driver has "
                f"{self._version}: {_INSTALL}"
            )
        return pickle.loads(self._pickled)(batches)  # type: ignore[no-any-return]  # noqa: S301 - ours


@contextmanager
def failures_in_one_line() -> Iterator[None]:
    """Raise SparkFailure for whatever Spark raises in the block."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkFailure(_line(error)) from error


@contextmanager
def without_stack_trace() -> Iterator[None]:
    """Make Spark show a KanalyzeError of this process without its stack trace.

    For the Python processes that plan a data source and run its tasks.
    """
    try:
        yield
    except KanalyzeError:
        # What spark.sql.execution.pyspark.udf.hideTraceback.enabled sets for the whole session.
        os.environ[_HIDE_STACK] = "1"
        raise


def _line(error: PySparkException | Py4JError) -> str:
    text = str(error)
    if isinstance(error, Py4JJavaError):
        text = f"{error.java_exception.toString()}\n{text}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        # The error that a task raised; the other lines are the stack traces around it.
        match = _RAISED.match(line)
        if match is not None and match[1].startswith(_OURS):
            return match[2]
    if any(_MISSING in line for line in lines):
        return f"a worker has no kanalyze: {_INSTALL}"
    for pattern in (_RAISED, _CAUSED_BY):
        for line in reversed(lines):
            match = pattern.match(line)
            if match is not None and match[2]:
                return f"Spark: {match[1].rpartition('.')[2]}: {match[2]}"
    return f"Spark: {lines[0] if lines else type(error).__name__}"
