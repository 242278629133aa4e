"""Starts a Spark session, or says in one line what is missing.

In: the URL of a master, settings. Out: a ``SparkSession``.

This module can be imported without pyspark. An active session (a notebook's, a platform's) is used
with its own settings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_OLDEST_JAVA: Final = 17
_INSTALL_JAVA: Final = (
    "(Debian: apt install openjdk-17-jre-headless or openjdk-21-jre-headless; "
    "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@21)"
)
_INSTALL_PACKAGES: Final = "pip install 'kanalyze[spark]'"
_LONGEST_WAIT_S: Final = 30
_MASTERS: Final = ("local", "spark://", "yarn", "k8s://")
_LOOPBACK: Final = "127.0.0.1"
_LOG_CONFIGURATION: Final = Path(__file__).with_name("log4j2.properties")

_SETTINGS: Final = {
    # Times are integers of nanoseconds; timestamps made of them have the same day everywhere.
    "spark.sql.session.timeZone": "UTC",
    # A saved state of a bucket may have many MB, and a Python worker holds two batches at a time.
    # The limit of bytes (Spark's default is 64 MiB) is for states, that of records for rows.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
"""Settings of every session."""

_DRIVER_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}",
}
"""Settings of a JVM that is started here."""

_LOCAL_SETTINGS: Final = {
    # Only this machine takes part, so no other may connect.
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    # The heap of driver and executors, without Python workers. Sorting spills to disk beyond it.
    "spark.driver.memory": "2g",
    # Rows do not pass through the JVM, which runs for about a minute. In that time the second
    # compiler and parallel garbage collection cost more than they gain.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # There are few queries, each runs once, on binary columns: generated code does not pay off.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings of a session whose executors are threads of the driver."""

_NO_SETTINGS: Final[Mapping[str, str]] = {}


def start(
    master: str | None, *, name: str = "kanalyze", conf: Mapping[str, str] = _NO_SETTINGS
) -> SparkSession:
    """Return the active session as it is, or start one.

    Args:
        master: the URL of a master; None for that of ``spark-submit``, or else all cores of this
            machine (``local[*]``). An active session keeps its own.
        name: the name of the application.
        conf: settings of a session that is started; they override those of this module.

    Raises:
        UsageError: the master is invalid; Spark, pandas or Java is missing or too old; or the
            session cannot be started.
    """
    if master is not None and not master.startswith(_MASTERS):
        raise UsageError(
            f"not a Spark master: {master!r}; one is local[*], spark://HOST:PORT, yarn or k8s://..."
        )
    check_packages()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:
        pass  # no session is active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        # Under spark-submit the JVM runs already, with the settings of the command.
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            return _in_spark_submit(master, name, conf)
        check_java()
        master = master or "local[*]"
        return _build(master, name, {**_SETTINGS, **_jvm_settings(master), **conf})
    except (PySparkException, Py4JError) as error:
        raise UsageError(f"Spark cannot be started: {_reason(error)}") from None


def check_packages() -> None:
    """Raise UsageError if pyspark or pandas is not installed."""
    if find_spec("pyspark") is None:
        raise UsageError(f"Spark is not installed: {_INSTALL_PACKAGES}")
    if find_spec("pandas") is None:
        # PySpark checks that pandas is installed, although none of its functions is called here.
        raise UsageError(f"PySpark needs pandas, which is not installed: {_INSTALL_PACKAGES}")


def check_java() -> None:
    """Raise UsageError if there is no Java runtime, or it is too old for Spark.

    Like Spark, it looks in JAVA_HOME if that is set, otherwise on the PATH.
    """
    from pyspark.version import __version__

    requirement = (
        f"Spark {'.'.join(__version__.split('.')[:2])} needs a JRE {_OLDEST_JAVA} or later"
    )
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(f"{home}/bin/java" if home else "java")
    if program is None:
        location = f" in JAVA_HOME, {home}" if home else ""
        raise UsageError(f"no Java found{location}: {requirement} {_INSTALL_JAVA}")
    version = _java_version(program)
    if version is None:
        raise UsageError(f"{program} is not a working Java: {requirement} {_INSTALL_JAVA}")
    if version < _OLDEST_JAVA:
        raise UsageError(f"{program} is Java {version}: {requirement} {_INSTALL_JAVA}")


def _java_version(program: str) -> int | None:
    """Return a Java's major version, 8 for ``1.8.0``; None if it does not print one."""
    try:
        completed = subprocess.run(  # noqa: S603 - the Java that Spark is about to run
            [program, "-version"],
            capture_output=True,
            check=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_WAIT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d{1,4})\b', completed.stderr + completed.stdout)
    return None if match is None else int(match[1])


def _in_spark_submit(master: str | None, name: str, conf: Mapping[str, str]) -> SparkSession:
    """Return a session in the JVM of ``spark-submit``; settings of that command are kept."""
    session = _build(master, name, conf)
    submitted = session.sparkContext.getConf()
    for key, value in _SETTINGS.items():
        if not submitted.contains(key):
            session.conf.set(key, value)
    return session


def _build(master: str | None, name: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _jvm_settings(master: str) -> dict[str, str]:
    return {**_DRIVER_SETTINGS, **(_LOCAL_SETTINGS if master.startswith("local") else {})}


def _reason(error: Exception) -> str:
    """Return the first line of an error of Spark or the JVM, without a stack trace."""
    java_error = getattr(error, "java_exception", None)
    text = str(error) if java_error is None else str(java_error.getMessage())
    lines = [line.strip() for line in text.splitlines()]
    return next(filter(None, lines), type(error).__name__)
