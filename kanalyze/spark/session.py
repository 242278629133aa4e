"""A Spark session to run in, and one line for whatever is missing to have one.

In: the URL of a master, settings. Out: a ``SparkSession``. Must not know: what is done in it.

This module can be imported without pyspark. A session that is there already (a notebook's, a
platform's) is used as it is: its settings are its owner's.
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

__all__ = ["check_java", "check_packages", "start"]

_OLDEST_JAVA: Final = 17
_INSTALL_JAVA: Final = (
    "(Debian: apt install openjdk-17-jre-headless or openjdk-21-jre-headless; "
    "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@21)"
)
_INSTALL_PACKAGES: Final = "pip install kanalyze[spark]"
_LONGEST_WAIT_S: Final = 30
_MASTERS: Final = ("local", "spark://", "yarn", "k8s://")
_LOOPBACK: Final = "127.0.0.1"
_LOG_CONFIGURATION: Final = Path(__file__).with_name("log4j2.properties")

_SETTINGS: Final = {
    # Without it Spark asks no data source written in Python which rows it can leave out.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Times are integers of nanoseconds here; whoever makes timestamps of them gets the same days
    # on every machine.
    "spark.sql.session.timeZone": "UTC",
    # What is shuffled are blocks of segments, of up to some MB each: a batch of the default 10,000
    # of them would not fit a Python worker. The bytes are the limit then (64 MiB by default, and
    # a worker holds a batch, what it makes of it and the next); the records are one for rows.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # How much is shuffled is known only when the captures were read, so the number of partitions
    # is left to Spark: it starts with many and puts small ones together. That never parts the rows
    # of a key, on which the rebuilding of a connection relies. Rebuilding takes a core much longer
    # than reading the bytes does, so rather all cores than partitions of a certain size.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "true",
}
"""Those of the session, wherever it runs."""

_DRIVER_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}",
}
"""Those of a JVM that is started here."""

_LOCAL_SETTINGS: Final = {
    # Nothing outside this machine takes part: nothing outside may connect.
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    # The heap of all there is in local mode but the Python workers. Sorting spills to disk beyond.
    "spark.driver.memory": "2g",
}
"""Those of a session whose executors are threads of the driver."""

_NOTHING: Final[Mapping[str, str]] = {}


def start(
    master: str | None, *, name: str = "kanalyze", conf: Mapping[str, str] = _NOTHING
) -> SparkSession:
    """Return the session that there is, as it is; or start one.

    Args:
        master: the URL of a master; None for that of ``spark-submit``, or else all cores of this
            machine (``local[*]``). A session that there is keeps its own.
        name: what the application is called in a cluster.
        conf: settings for a session that is started; they win over those of this module.

    Raises:
        UsageError: the master is none; Spark, what it needs of Python, or Java is missing or too
            old; or the session cannot be started.
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
        pass  # there is none
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        # Under spark-submit the JVM runs already, with the settings that it was given.
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            return _submitted(master, name, conf)
        check_java()
        master = master or "local[*]"
        return _built(master, name, {**_SETTINGS, **_jvm_settings(master), **conf})
    except (PySparkException, Py4JError) as error:
        raise UsageError(f"Spark cannot be started: {_reason(error)}") from None


def check_packages() -> None:
    """Raise UsageError where pyspark, or what it needs of Python, is not installed."""
    if find_spec("pyspark") is None:
        raise UsageError(f"Spark is not installed: {_INSTALL_PACKAGES}")
    if find_spec("pandas") is None:
        # It makes no use of it for what is done here, and yet does nothing without.
        raise UsageError(f"PySpark needs pandas, which is not installed: {_INSTALL_PACKAGES}")


def check_java() -> None:
    """Raise UsageError where there is no Java runtime, or one that is too old for Spark.

    It is looked for as Spark looks for it: below JAVA_HOME, else on the PATH.
    """
    from pyspark.version import __version__

    needed = f"Spark {'.'.join(__version__.split('.')[:2])} needs a JRE {_OLDEST_JAVA} or later"
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(f"{home}/bin/java" if home else "java")
    if program is None:
        where = f" in JAVA_HOME, {home}" if home else ""
        raise UsageError(f"no Java found{where}: {needed} {_INSTALL_JAVA}")
    version = _java_version(program)
    if version is None:
        raise UsageError(f"{program} is no Java that runs: {needed} {_INSTALL_JAVA}")
    if version < _OLDEST_JAVA:
        raise UsageError(f"{program} is Java {version}: {needed} {_INSTALL_JAVA}")


def _java_version(program: str) -> int | None:
    """Return the number of a Java's version, 8 for ``1.8.0``; None where it does not say."""
    try:
        asked = subprocess.run(  # noqa: S603 - the Java that Spark is about to run
            [program, "-version"],
            capture_output=True,
            check=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_WAIT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d{1,4})\b', asked.stderr + asked.stdout)
    return None if found is None else int(found[1])


def _submitted(master: str | None, name: str, conf: Mapping[str, str]) -> SparkSession:
    """Return a session in the JVM of ``spark-submit``, whose settings win over those of here."""
    session = _built(master, name, conf)
    given = session.sparkContext.getConf()
    for key, value in _SETTINGS.items():
        if not given.contains(key):
            session.conf.set(key, value)
    return session


def _built(master: str | None, name: str, settings: Mapping[str, str]) -> SparkSession:
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
    """Return the first line of what Spark says; of the JVM's exceptions without their stack."""
    thrown = getattr(error, "java_exception", None)
    text = str(error) if thrown is None else str(thrown.getMessage())
    lines = [line.strip() for line in text.splitlines()]
    return next(filter(None, lines), type(error).__name__)
