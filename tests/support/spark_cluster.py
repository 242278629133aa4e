"""A Spark cluster of this machine: a standalone master, two workers, and drivers that use them.

It uses the Spark that PySpark contains, on loopback. It ends all that it starts, by process id.
A process can have one SparkContext, so a test's driver is a process of its own: a module that gets
the master's URL and a folder, and calls :func:`answer` at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyspark

from tests.support.captures import ROOT
from tests.support.spark import settings
from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

SPARK_HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
WORKERS = 2
WORKER_MEMORY = "700m"
STOP_S = 15


class StandaloneCluster:
    """A master and its workers, each of them with one core and an executor's memory."""

    def __init__(self, folder: Path) -> None:
        """Start it and wait until the workers have registered; its files go to a folder."""
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._drivers = 0
        (folder / "conf").mkdir(parents=True)
        try:
            master = self._start("master", "deploy.master.Master", "--port", "0")
            self.url = self._line_of_log(master, r"Starting Spark master at (spark://\S+)")
            self._page = self._line_of_log(master, r"MasterWebUI .* started at (http://\S+)")
            self._workers = [self._start_worker(index) for index in range(WORKERS)]
            wait_until(lambda: self.alive_workers() == WORKERS, "workers have registered")
        except BaseException:
            self.stop()
            raise

    def alive_workers(self) -> int:
        """How many workers are alive, by the master's count."""
        with urllib.request.urlopen(f"{self._page}/json/", timeout=LONG_S) as answer:
            return int(json.load(answer)["aliveworkers"])

    def kill_worker(self, index: int) -> None:
        """Kill a worker with its executors and their Python workers, as if its machine failed."""
        worker = self._workers[index]
        kill_tree(worker.pid)
        worker.wait()

    @contextlib.contextmanager
    def driver(self, module: str, *arguments: str) -> Iterator[Driver]:
        """Run a module as a driver: ``python -m MODULE URL FOLDER ARGUMENTS...``."""
        self._drivers += 1
        folder = self._folder / f"driver{self._drivers}"
        folder.mkdir()
        command = [sys.executable, "-m", module, self.url, str(folder), *arguments]
        driver = Driver(command, folder, self._environment())
        try:
            yield driver
        finally:
            driver.end()

    def run(self, module: str, *arguments: str) -> Any:
        """Run a driver to its end; return its answer."""
        with self.driver(module, *arguments) as driver:
            return driver.result()

    def stop(self) -> None:
        """End all that was started."""
        end_trees(*reversed(self._processes))

    def _start_worker(self, index: int) -> subprocess.Popen[bytes]:
        place = ["--port", "0", "--work-dir", str(self._folder / f"work{index}")]
        share = ["--cores", "1", "--memory", WORKER_MEMORY]
        return self._start(f"worker{index}", "deploy.worker.Worker", *place, *share, self.url)

    def _start(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        # spark-class becomes the JVM, so that its process id is that of the JVM.
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.{main}"]
        place = ["--host", LOOPBACK, "--webui-port", "0"]
        process = start_process(
            [*command, *place, *arguments], self._folder / f"{name}.log", self._environment()
        )
        self._processes.append(process)
        return process

    def _line_of_log(self, process: subprocess.Popen[bytes], pattern: str) -> str:
        """Wait for a line in the log of the master."""
        log = self._folder / "master.log"

        def find() -> str | None:
            assert process.poll() is None, log.read_text()
            found = re.search(pattern, log.read_text())
            return None if found is None else found[1]

        return wait_until(find, pattern)

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_CONF_DIR": str(self._folder / "conf"),
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "SPARK_LOCAL_IP": LOOPBACK,
        }


class Driver:
    """A driver at work."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        """Start it; ``folder`` is its own, for files that it and its tasks write for the test."""
        self.folder = folder
        self._output = folder / "driver.out"
        self._log = folder / "driver.log"
        self._process = start_process(command, self._log, environment, output=self._output)

    def result(self) -> Any:
        """Wait for its end; return its answer."""
        status = self._process.wait(LONG_S)
        assert status == 0, self._log.read_text()[-10_000:]
        return json.loads(self._output.read_text().splitlines()[-1])

    def end(self) -> None:
        """End it if it still runs."""
        end_trees(self._process)


def cluster_settings(folder: Path) -> dict[str, str]:
    """The settings of a driver's session: all on loopback, an executor for each worker."""
    return {
        **settings(folder),
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def answer(value: Any) -> None:
    """Give the driver's result to the test; the driver calls this last."""
    sys.stdout.write(f"{json.dumps(value)}\n")


# -- processes ------------------------------------------------------------------------------------


def start_process(
    command: list[str], log: Path, environment: dict[str, str], output: Path | None = None
) -> subprocess.Popen[bytes]:
    with log.open("wb") as errors, (output or log).open("ab") as lines:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=lines,
            stderr=errors,
        )


def end_trees(*processes: subprocess.Popen[bytes]) -> None:
    """End processes and all that descend from them."""
    below = [pid for process in processes for pid in running_below(process)]
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pid in below:
        kill(pid)


def running_below(process: subprocess.Popen[bytes]) -> list[int]:
    return descendants(process.pid) if process.poll() is None else []


def kill_tree(pid: int) -> None:
    """Kill a process and all that descend from it."""
    for each in [pid, *descendants(pid)]:
        kill(each)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """The processes below one."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, check=True, text=True
    )
    children: dict[int, list[int]] = {}
    for line in listed.stdout.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found = [pid]
    for each in found:  # grows as it goes
        found.extend(children.get(each, ()))
    return found[1:]
