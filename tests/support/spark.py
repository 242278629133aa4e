"""A Spark session for tests: small, quiet, on loopback; it ends with all that it started."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pyspark import SparkContext

from kanalyze.spark.session import start
from tests.support.captures import ROOT
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


def settings(folder: Path) -> dict[str, str]:
    """Settings that make a session small and quiet, and keep its files in a folder."""
    return {
        "spark.driver.memory": "1g",
        # For a JVM that runs a minute, the best compiler does not pay.
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        # Functions of test modules are pickled by name.
        "spark.executorEnv.PYTHONPATH": str(ROOT),
    }


_CHEAP = {
    # Each query is run once: generating and compiling Java code for it never pays.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Workers are forked from a process that has imported what tasks import.
    "spark.python.daemon.module": "tests.support.spark_daemon",
    # Class files of Spark are trusted: verifying them takes seconds. With room for objects and for
    # compiled code, few are thrown away and made again.
    "spark.driver.defaultJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms1g -Xmn512m -XX:ReservedCodeCacheSize=240m"
        " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    ),
}
"""Settings of the session that all tests share only: other sessions are as users have them."""


def own_session(spark: SparkSession) -> SparkSession:
    """Return another session of the same Spark, for settings and data sources of one test.

    It becomes the active session: Spark looks there for data sources that exist already.
    """
    session = spark.newSession()
    session.createDataFrame([], "nothing int")
    return session


@contextlib.contextmanager
def local_session(folder: Path) -> Iterator[SparkSession]:
    """Yield a session of two threads, and end its JVM."""
    session = start("local[2]", name="tests", conf={**settings(folder), **_CHEAP})
    try:
        yield session
    finally:
        session.stop()
        end_jvm()


def end_jvm() -> None:
    """End the JVM that PySpark leaves running, and close the connection to it."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = None
    SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=LONG_S)
