"""Sessions, and what is said where there can be none."""

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
    """A program of that name, which tells its version as Java does: on standard error."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    said = "\n".join(lines)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit {status}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing but a shell's programs can be found."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "cat").symlink_to("/bin/cat")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def said_of_java() -> str:
    with pytest.raises(UsageError) as caught:
        session.check_java()
    text = str(caught.value)
    assert "\n" not in text
    assert "Debian: apt install openjdk-17-jre-headless" in text
    assert "macOS: brew install" in text
    return text


@pytest.mark.usefixtures("without_java")
class TestJava:
    """Java is looked for where Spark does, and asked how old it is."""

    def test_none_at_all(self) -> None:
        version = ".".join(pyspark.__version__.split(".")[:2])
        wanted = f"no Java found: Spark {version} needs a JRE 17 or later (Debian: "
        assert said_of_java().startswith(wanted)

    @pytest.mark.parametrize(
        "line",
        [
            JAVA_17,
            'openjdk version "21.0.2" 2024-01-16 LTS',
            'java version "24-ea" 2025-03-18',
            "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n" + JAVA_17,
        ],
    )
    def test_new_enough(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
        monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, line).parents[1]))
        session.check_java()

    @pytest.mark.parametrize(
        ("line", "version"),
        [('java version "1.8.0_402"', 8), ('openjdk version "11.0.22" 2024-01-16', 11)],
    )
    def test_too_old(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, version: int
    ) -> None:
        program = java(tmp_path, line)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        wanted = f"{program} is Java {version}: Spark "
        assert said_of_java().startswith(wanted)

    def test_one_that_does_not_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """macOS has a ``java`` that says where to get one."""
        program = java(tmp_path, "Unable to locate a Java Runtime.", status=1)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert said_of_java().startswith(f"{program} is not a working Java: ")

    def test_one_that_says_nothing_of_use(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = java(tmp_path, "a cup of coffee")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert said_of_java().startswith(f"{program} is not a working Java: ")

    def test_one_that_does_not_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = java(tmp_path)
        program.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        monkeypatch.setattr(session, "_LONGEST_WAIT_S", 0.2)
        assert said_of_java().startswith(f"{program} is not a working Java: ")

    def test_that_of_java_home_goes_before_that_on_the_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        new, old = java(tmp_path / "new", JAVA_17), java(tmp_path / "old", 'version "1.8.0"')
        monkeypatch.setenv("PATH", str(new.parent), prepend=os.pathsep)
        session.check_java()
        monkeypatch.setenv("JAVA_HOME", str(old.parents[1]))
        assert said_of_java().startswith(f"{old} is Java 8: ")

    def test_java_home_without_a_java(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert said_of_java().startswith(f"no Java found in JAVA_HOME, {tmp_path}: ")


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("pyspark", "Spark is not installed: pip install kanalyze[spark]"),
        ("pandas", "PySpark needs pandas, which is not installed: pip install kanalyze[spark]"),
    ],
)
def test_a_package_that_is_not_there(
    package: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError) as caught:
        session.start(None)
    assert str(caught.value) == text


@pytest.mark.parametrize("master", ["", "nonsense", "http://host:7077"])
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(UsageError, match=r"^not a Spark master: '.*'; one is local\[\*\], "):
        session.start(master)


def test_a_session_that_is_there_is_used_as_it_is(spark: SparkSession) -> None:
    before = spark.conf.getAll
    assert session.start(None, conf={"spark.sql.shuffle.partitions": "3"}) is spark
    assert session.start("local[7]") is spark
    assert spark.conf.getAll == before


def test_the_settings_of_a_session(spark: SparkSession) -> None:
    """The session of these tests is one that was started."""
    assert spark.sparkContext.appName == "tests"
    wanted = {
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    assert {name: spark.conf.get(name) for name in wanted} == wanted
    # What was asked for goes before what is set otherwise.
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
    print(spark.conf.get("spark.sql.python.filterPushdown.enabled"))
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
def test_without_java_the_start_of_a_session_says_so_in_one_line() -> None:
    ended = run(sys.executable, "-c", START)
    assert ended.stdout.startswith("no Java found: Spark ")
    assert len(ended.stdout.splitlines()) == 1
    assert ended.stderr == ""


@pytest.mark.long
def test_what_the_jvm_refuses_is_one_line() -> None:
    ended = run(sys.executable, "-c", START, "spark.driver.memory=1k")
    # The JVM tells why on our standard output, before.
    assert ended.stdout.splitlines()[-1].startswith("Spark cannot be started: ")
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.long
def test_a_session_makes_no_noise() -> None:
    ended = run(sys.executable, "-c", START)
    assert ended.stdout == "local[*] UTC\ntrue\n"
    # The JVM's own, of a module that Spark asks for.
    noise = [line for line in ended.stderr.splitlines() if "incubator modules" not in line]
    assert noise == []


@pytest.mark.long
def test_what_spark_submit_was_given_stays(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(START)
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    given = ["--conf", "spark.sql.session.timeZone=Asia/Tokyo", "--conf", "spark.ui.enabled=false"]
    where = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    ended = run(submit, "--master", "local[1]", *given, str(script), **where)
    assert ended.stdout == "local[1] Asia/Tokyo\ntrue\n"


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


def test_importing_the_package_imports_no_spark() -> None:
    lines = "import sys, kanalyze.spark, kanalyze.spark.session, kanalyze.spark.queries\n"
    assert run(sys.executable, "-c", f"{lines}print('pyspark' in sys.modules)").stdout == "False\n"


def test_every_public_name_is_there() -> None:
    for name in kanalyze.spark.__all__:
        assert getattr(kanalyze.spark, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        _ = kanalyze.spark.nothing
