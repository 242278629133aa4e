"""Spark sessions, and the errors when none can be started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

import kanalyze.spark
from kanalyze.errors import UsageError
from kanalyze.spark import session
from tests.support.captures import ROOT, path
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'


def java(folder: Path, *lines: str, status: int = 0) -> Path:
    """A program named ``java`` that prints its version to standard error, as Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    output = "\n".join(lines)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{output}\nEND\nexit {status}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No program but ``cat`` is in the PATH."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "cat").symlink_to("/bin/cat")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def java_error() -> str:
    with pytest.raises(UsageError) as caught:
        session.check_java()
    text = str(caught.value)
    assert "\n" not in text
    assert "Debian: apt install openjdk-17-jre-headless" in text
    assert "macOS: brew install" in text
    return text


@pytest.mark.usefixtures("without_java")
class TestJava:
    """Java is searched for in the same places as Spark does, and its version is checked."""

    def test_no_java_is_an_error(self) -> None:
        version = ".".join(pyspark.__version__.split(".")[:2])
        expected_start = f"no Java found: Spark {version} needs a JRE 17 or later (Debian: "
        assert java_error().startswith(expected_start)

    @pytest.mark.parametrize(
        "line",
        [
            JAVA_17,
            'openjdk version "21.0.2" 2024-01-16 LTS',
            'java version "24-ea" 2025-03-18',
            "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n" + JAVA_17,
        ],
    )
    def test_a_new_java_is_accepted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
    ) -> None:
        monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, line).parents[1]))
        session.check_java()

    @pytest.mark.parametrize(
        ("line", "version"),
        [('java version "1.8.0_402"', 8), ('openjdk version "11.0.22" 2024-01-16', 11)],
    )
    def test_an_old_java_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, version: int
    ) -> None:
        program = java(tmp_path, line)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        expected_start = f"{program} is Java {version}: Spark "
        assert java_error().startswith(expected_start)

    def test_a_java_that_does_not_run_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """macOS has a ``java`` that only says where to get Java."""
        program = java(tmp_path, "Unable to locate a Java Runtime.", status=1)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert java_error().startswith(f"{program} is not a working Java: ")

    def test_a_java_without_a_version_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = java(tmp_path, "a cup of coffee")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert java_error().startswith(f"{program} is not a working Java: ")

    def test_a_java_that_hangs_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = java(tmp_path)
        program.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        monkeypatch.setattr(session, "_LONGEST_WAIT_S", 0.2)
        assert java_error().startswith(f"{program} is not a working Java: ")

    def test_java_home_goes_before_the_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        new, old = java(tmp_path / "new", JAVA_17), java(tmp_path / "old", 'version "1.8.0"')
        monkeypatch.setenv("PATH", str(new.parent), prepend=os.pathsep)
        session.check_java()
        monkeypatch.setenv("JAVA_HOME", str(old.parents[1]))
        assert java_error().startswith(f"{old} is Java 8: ")

    def test_java_home_without_java_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert java_error().startswith(f"no Java found in JAVA_HOME, {tmp_path}: ")


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("pyspark", "Spark is not installed: pip install 'kanalyze[spark]'"),
        ("pandas", "PySpark needs pandas, which is not installed: pip install 'kanalyze[spark]'"),
    ],
)
def test_a_missing_package_is_an_error(
    package: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError) as caught:
        session.start(None)
    assert str(caught.value) == text


@pytest.mark.parametrize("master", ["", "nonsense", "http://host:7077"])
def test_an_invalid_master_is_an_error(master: str) -> None:
    with pytest.raises(UsageError, match=r"^not a Spark master: '.*'; one is local\[\*\], "):
        session.start(master)


def test_an_active_session_is_used_unchanged(spark: SparkSession) -> None:
    before = spark.conf.getAll
    assert session.start(None, conf={"spark.sql.shuffle.partitions": "3"}) is spark
    assert session.start("local[7]") is spark
    assert spark.conf.getAll == before


def test_a_started_session_has_our_settings(spark: SparkSession) -> None:
    """kanalyze started the session of these tests."""
    assert spark.sparkContext.appName == "tests"
    expected = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    assert {name: spark.conf.get(name) for name in expected} == expected
    # A requested setting replaces our default.
    assert spark.sparkContext.getConf().get("spark.driver.memory") == "1g"


# -- in a process of its own ----------------------------------------------------------------------

START = """
import sys
from kanalyze.errors import UsageError
from kanalyze.spark.session import start
try:
    spark = start(None, conf=dict(text.split("=") for text in sys.argv[1:]))
except UsageError as error:
    print(error)
else:
    print(spark.sparkContext.master, spark.conf.get("spark.sql.session.timeZone"))
    print(spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch"))
    spark.stop()
"""


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        text=True,
        timeout=LONG_S,
    )


@pytest.mark.usefixtures("without_java")
def test_without_java_the_error_of_a_start_is_one_line() -> None:
    ended = run(sys.executable, "-c", START)
    assert ended.stdout.startswith("no Java found: Spark ")
    assert len(ended.stdout.splitlines()) == 1
    assert ended.stderr == ""


@pytest.mark.long
def test_a_setting_that_the_jvm_refuses_is_reported_in_one_line() -> None:
    ended = run(sys.executable, "-c", START, "spark.driver.memory=1k")
    # Before that, the JVM prints the reason to our standard output.
    assert ended.stdout.splitlines()[-1].startswith("Spark cannot be started: ")
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.long
def test_a_session_prints_nothing() -> None:
    ended = run(sys.executable, "-c", START)
    assert ended.stdout == "local[*] UTC\n16777216\n"
    # The JVM itself prints a warning about a module that Spark needs.
    noise = [line for line in ended.stderr.splitlines() if "incubator modules" not in line]
    assert noise == []


@pytest.mark.long
def test_settings_of_spark_submit_are_kept(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(START)
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    settings = [
        "--conf",
        "spark.sql.session.timeZone=Asia/Tokyo",
        "--conf",
        "spark.ui.enabled=false",
    ]
    environment = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    ended = run(submit, "--master", "local[1]", *settings, str(script), **environment)
    assert ended.stdout == "local[1] Asia/Tokyo\n16777216\n"


# -- the rest of the tool -------------------------------------------------------------------------

COMMAND = """
import sys
from kanalyze.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
WITHOUT_SPARK = f"import sys\nsys.modules['pyspark'] = None\n{COMMAND}"


@pytest.mark.few(1)
@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize("command", ["report", "requests"])
def test_other_commands_need_neither_spark_nor_java(command: str) -> None:
    arguments = [command, str(path("any"))]
    bare = run(sys.executable, "-c", WITHOUT_SPARK, *arguments)
    assert bare.stdout == run(sys.executable, "-c", COMMAND, *arguments).stdout
    assert len(bare.stdout.splitlines()) > 20


def test_importing_the_package_does_not_import_pyspark() -> None:
    lines = "import sys, kanalyze.spark, kanalyze.spark.session\n"
    assert run(sys.executable, "-c", f"{lines}print('pyspark' in sys.modules)").stdout == "False\n"


def test_every_public_name_exists() -> None:
    for name in kanalyze.spark.__all__:
        assert getattr(kanalyze.spark, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        _ = kanalyze.spark.nothing
