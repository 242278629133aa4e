"""What a trial is: something done on a cluster, and the finding that it should be."""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.bridge import Machine, Switch
from lab.cache import HERE, Tools
from lab.processes import end_group, run, start
from lab.trio import Trio

if TYPE_CHECKING:
    import random


@dataclass(frozen=True)
class Expected:
    """The finding that has to be the first, and whom or what it has to name."""

    findings: tuple[str, ...]
    """Names of findings that are right."""
    concerns: Mapping[str, str] = field(default_factory=dict)
    """Values by name, as findings have them; of a broker the IP address is enough."""
    is_timed: bool = True
    """Whether the fault has a beginning and an end that the capture shows."""
    also: tuple[str, ...] = ()
    """Names of findings that have to be reported too, as effects of the first."""


def _nothing(_: "Stage") -> None:
    """What there is to prepare if nothing else is said."""


@dataclass(frozen=True)
class Trial:
    """Something that is done while a capture is taken; healthy if nothing is to be found."""

    name: str
    summary: str
    play: Callable[["Stage"], None]
    prepare: Callable[["Stage"], None] = _nothing
    expected: Expected | None = None
    is_cold: bool = False
    """Whether the cluster is not running when it begins."""
    has_racks: bool = False
    """Whether its cluster is one with racks, with nothing beside what it plays."""
    is_kept: bool = False
    """Whether what the machine of its clients sent and got is kept in the repository."""


class Stage:
    """The cluster, the machines of clients, and the programs that run there."""

    def __init__(
        self, tools: Tools, switch: Switch, trio: Trio, jobs: Machine, more: Path, folder: Path
    ) -> None:
        self.tools, self.switch, self.trio, self.jobs = tools, switch, trio, jobs
        self.draw: random.Random | None = None
        """What draws values that nobody chose; None for the usual ones."""
        self._more = more
        self.folder = folder
        self._children: list[subprocess.Popen[str]] = []
        self._started = 0
        self.trial = "background"
        """Names the outputs of programs."""
        self.fault_ns: tuple[int, int | None] | None = None
        """When the fault began and ended; without an end if the capture shows none."""

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses."""
        return self.trio.bootstrap

    def value(self, usual: float, least: float, most: float) -> float:
        """Return the usual value, or one drawn between two."""
        return usual if self.draw is None else round(self.draw.uniform(least, most), 3)

    def number(self, usual: int, least: int, most: int) -> int:
        """Return the usual number, or one drawn between two, both included."""
        return usual if self.draw is None else self.draw.randint(least, most)

    def one_of(self, usual: str, *others: str) -> str:
        """Return the usual text, or one that is drawn of all."""
        return usual if self.draw is None else self.draw.choice((usual, *others))

    @contextlib.contextmanager
    def fault(self, *, is_over: bool = True) -> Iterator[None]:
        """Remember when the fault was there."""
        begin = time.time_ns()
        yield
        self.fault_ns = (begin, time.time_ns() if is_over else None)

    def start(self) -> None:
        """Start the cluster of a trial that begins without one."""
        self.trio.start()

    def topic(self, name: str, partitions: int = 3, replicas: int = 3, **config: str) -> None:
        """Create a topic; in names of settings, dots are underscores."""
        words = ["--create", "--topic", name, "--partitions", str(partitions)]
        words += ["--replication-factor", str(replicas)]
        for key, value in config.items():
            words += ["--config", f"{key.replace('_', '.')}={value}"]
        self.tool("org.apache.kafka.tools.TopicCommand", *words)

    def tool(self, main_class: str, *words: str, check: bool = True) -> str:
        """Run one of Kafka's tools to its end."""
        command = self._java(main_class, "--bootstrap-server", self.bootstrap, *words)
        return run(self.jobs.command(command), timeout=90, check=check).stdout

    def java(self, main_class: str, *words: str) -> subprocess.Popen[str]:
        """Start a Java program; it ends with the trial."""
        return self._start(self.jobs, self._java(main_class, *words))

    def worker(
        self, op: str, *, machine: Machine | None = None, **job: Any
    ) -> subprocess.Popen[str]:
        """Start a client in Python; it ends with the trial."""
        told = json.dumps({"op": op, "bootstrap": self.bootstrap, **job})
        file = self.folder / f"job-{self._started}.json"
        file.write_text(told)
        program = HERE / "clients" / "trial_worker.py"
        command = [str(self.tools.python), "-W", "ignore", str(program), str(file)]
        return self._start(machine or self.jobs, command)

    def post(self, port: int, path: str, body: object) -> None:
        """Post something to a program on the machine of clients, when it is there."""
        patient = ["--retry", "40", "--retry-connrefused", "--retry-delay", "1"]
        told = ["-X", "POST", "-H", "Content-Type: application/json", "-d", json.dumps(body)]
        command = ["curl", "-s", *told, *patient, f"http://127.0.0.1:{port}{path}"]
        run(self.jobs.command(command), timeout=60)

    def end(self, child: subprocess.Popen[str], grace: float = 10.0) -> None:
        """End a program as an operator would."""
        end_group(child, grace)
        self._children.remove(child)

    def finish(self, child: subprocess.Popen[str], timeout: float = 60.0) -> None:
        """Wait for a program's own end, for a while."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout)

    def end_all(self) -> None:
        """End all programs that still run."""
        for child in self._children:
            end_group(child)
        self._children.clear()

    def file(self, name: str, lines: Sequence[str]) -> Path:
        """Write a file for a program."""
        path = self.folder / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def _java(self, main_class: str, *words: str) -> list[str]:
        path = f"{self.tools.jars}/*:{self._more}/*"
        small = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return ["java", *small, "-cp", path, main_class, *words]

    def _start(self, machine: Machine, command: list[str]) -> subprocess.Popen[str]:
        self._started += 1
        child = start(
            machine.command(command), log=self.folder / f"{self.trial}-{self._started}.log"
        )
        self._children.append(child)
        return child
