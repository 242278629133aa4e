"""What a scenario is, and what it is given to work with."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.broker import Broker, address
from lab.cache import HERE, Tools
from lab.cluster import Cluster
from lab.errors import RecorderError
from lab.namespace import Namespace
from lab.oldbroker import OldBroker
from lab.processes import run
from lab.sniffer import Recording
from lab.tlsbroker import TlsBroker
from lab.way import Line, Way

Result = dict[str, Any]
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "org.apache.kafka.tools.AclCommand"


class Lab:
    """The network and the programs of one recording, and what its clients have reported."""

    def __init__(
        self, tools: Tools, namespace: Namespace, folder: Path, broker: Broker | None
    ) -> None:
        self.tools = tools
        self.namespace = namespace
        self.folder = folder
        self._broker = broker
        self.old: OldBroker | None = None
        self.nodes: Cluster | None = None
        self.way: Way | None = None
        self.clients: list[Result] = []
        self.rejected: dict[str, int] = {}
        self.behind: dict[str, str] = {}
        """Clients by the address that the broker sees, where there is a proxy before it."""

    @property
    def broker(self) -> Broker:
        """The broker of a scenario that has one."""
        if self._broker is None:
            raise ValueError("this scenario has no broker")
        return self._broker

    @property
    def old_broker(self) -> OldBroker:
        """The broker of a scenario that has an old one."""
        if self.old is None:
            raise ValueError("this scenario has no old broker")
        return self.old

    @property
    def cluster(self) -> Cluster:
        """The nodes of a scenario that has some."""
        if self.nodes is None:
            raise ValueError("this scenario has no cluster")
        return self.nodes

    @property
    def tls_broker(self) -> TlsBroker:
        """The broker of a scenario about TLS."""
        if not isinstance(self._broker, TlsBroker):
            raise TypeError("this scenario is not about TLS")
        return self._broker

    def keylog(self, client: str) -> Path:
        """Return the file for the secrets that a client writes down itself."""
        return self.folder / f"{client}.keys"

    def java_options(self) -> tuple[str, ...]:
        """Return options of a JVM that writes its secrets, as the broker's does."""
        return self.tls_broker.secret_options(self.keylog("java"))

    def worker(
        self,
        library: str,
        op: str,
        timeout: float = 120,
        environment: tuple[str, ...] = (),
        **job: Any,
    ) -> Result:
        """Let a Python client do a job in a process of its own, and keep what it counted."""
        job.setdefault("bootstrap", address("PLAINTEXT"))
        job.setdefault("client_id", f"{library.replace('_', '-')}-{op}")
        script = str(HERE / "clients" / f"{library}_worker.py")
        command = ["env", *environment, str(self.tools.python), "-W", "ignore", script]
        return self._do(command, timeout, op, job)

    def produce(
        self, library: str, sends: list[Result], *, acks: str | int = "all", **job: Any
    ) -> Result:
        """Let a Python client send records."""
        return self.worker(library, "produce", acks=acks, sends=sends, **job)

    def consume(self, library: str, assign: list[list[Any]], count: int, **job: Any) -> Result:
        """Let a Python client read records from topics and partitions."""
        return self.worker(library, "consume", assign=assign, count=count, **job)

    def foreign_worker(self, program: list[str], op: str, timeout: float = 60, **job: Any) -> None:
        """Let a client of another language do a job, and keep what it counted."""
        self._do(program, timeout, op, {"bootstrap": address("PLAINTEXT"), **job})

    def _do(self, program: list[str], timeout: float, op: str, job: Result) -> Result:
        command = self.namespace.command(program)
        told = run(command, timeout=timeout, stdin=json.dumps({"op": op, **job}))
        result: Result = json.loads(told.stdout.splitlines()[-1])
        for found in result.get("clients", [result]):
            self.clients.append({"op": op} | found)
        return result

    def java_worker(
        self,
        steps: list[Result],
        *,
        listener: str = "PLAINTEXT",
        options: tuple[str, ...] = (),
        timeout: float = 120,
    ) -> None:
        """Let Kafka's own client do jobs, one after the other, in one process."""
        script = str(HERE / "clients" / "JavaWorker.java")
        command = self.namespace.command(self.tools.java(script, options=options))
        job = json.dumps({"bootstrap": address(listener), "steps": steps})
        told = run(command, timeout=timeout, stdin=job)
        self.clients.extend(json.loads(told.stdout.splitlines()[-1])["clients"])

    def tool(
        self,
        main_class: str,
        *arguments: str,
        listener: str = "PLAINTEXT",
        stdin: str | None = None,
        timeout: float = 90,
        may_fail: bool = False,
    ) -> tuple[str, str]:
        """Run one of Kafka's command-line classes; returns its output and its error output."""
        words = ["--bootstrap-server", address(listener), *arguments]
        command = self.namespace.command(self.tools.java(main_class, *words))
        told = run(command, timeout=timeout, stdin=stdin, check=not may_fail)
        return told.stdout, told.stderr

    def java_client(self, op: str, client_id: str, **counts: Any) -> None:
        """Keep what a command-line class counted."""
        about = {"library": "apache-kafka-java", "version": self.tools.kafka_version}
        self.clients.append({"op": op, **about, "client_id": client_id, **counts})

    def create_topics(self, topics: Mapping[str, Mapping[str, Any]]) -> None:
        """Topics made before the recording begins."""
        self.worker("confluent", "create_topics", topics=topics, client_id="setup")
        self.clients.clear()

    def console_producer(
        self,
        topic: str,
        values: list[str],
        *,
        acks: str,
        listener: str = "PLAINTEXT",
        settings: tuple[str, ...] = (),
        may_fail: bool = False,
    ) -> None:
        """Kafka's console producer: one record a line."""
        client_id = f"console-producer-acks-{acks}"
        words = ["--topic", topic]
        wanted = (f"acks={acks}", f"client.id={client_id}", *settings)
        for setting in wanted:
            words += ["--command-property", setting]
        lines = "".join(f"{value}\n" for value in values)
        told = self.tool(PRODUCER, *words, listener=listener, stdin=lines, may_fail=may_fail)
        self.java_client(
            "produce",
            client_id,
            acks=acks,
            sent={topic: {"*": len(values)}},
            **_errors("".join(told)),
        )

    def console_consumer(
        self,
        topic: str,
        options: str,
        *,
        client_id: str,
        listener: str = "PLAINTEXT",
        settings: tuple[str, ...] = (),
        may_fail: bool = False,
    ) -> None:
        """Kafka's console consumer; ``options`` have ``--max-messages`` or ``--timeout-ms``."""
        given = ["--topic", topic, *options.split()]
        for setting in (f"client.id={client_id}", *settings):
            given += ["--command-property", setting]
        out, err = self.tool(CONSUMER, *given, listener=listener, may_fail=may_fail)
        self.java_client(
            "consume", client_id, consumed={topic: {"*": processed(err)}}, **_errors(out + err)
        )


def sends_of(topic: str, count: int, size: int, partition: int = 0, **more: Any) -> list[Result]:
    """What a producer sends: so many records of a size."""
    return [{"topic": topic, "partition": partition, "count": count, "size": size, **more}]


def processed(text: str) -> int:
    """The console consumer's last word: how many records it read."""
    for line in text.splitlines():
        if line.startswith("Processed a total of "):
            return int(line.split()[4])
    raise RecorderError("the console consumer did not say how many records it read")


def _errors(text: str) -> Result:
    """Names of Kafka's exceptions that begin a line, as a logged error's second line does."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        words = line.replace(":", " ").split()
        if words and words[0].startswith("org.apache.kafka."):
            name = words[0].rpartition(".")[2]
            found[name] = found.get(name, 0) + 1
    return {"errors": found} if found else {}


def nothing(lab: Lab) -> None:
    """No preparation."""


@dataclass(frozen=True)
class Scenario:
    """One capture: how it is taken and what happens while it is.

    ``listeners`` are the broker's listeners whose ports are recorded; a scenario without a broker
    (``broker`` false) records all TCP of its namespace. ``whole_life`` begins the recording before
    the broker starts and ends it after the broker stopped. ``old`` is the version of an old broker
    and of its Scala. With ``nodes`` there is a cluster of so many, recorded on all their ports from
    before they start. ``broker_version`` is that of a KRaft broker before 4.0 and of its Scala.
    ``fault`` is the finding that the capture was made for. ``uncounted``: the broker cannot tell
    all, because it gets requests that it cannot read, or loses part of its log. ``tls``: the
    capture is about TLS, and is kept with its secrets in a folder of such captures; its broker may
    have ``security``, properties of Java's for both ends.
    """

    name: str
    summary: str
    run: Callable[[Lab], None]
    setup: Callable[[Lab], None] = nothing
    listeners: tuple[str, ...] = ("PLAINTEXT",)
    recording: Recording = field(default_factory=Recording)
    mtu: int = 1500
    offload: bool = False
    broker: bool = True
    whole_life: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    old: tuple[str, str] | None = None
    nodes: int = 0
    broker_version: tuple[str, str] | None = None
    clients_only: bool = False
    line: Line | None = None
    filter: str | None = None
    fault: str = ""
    provoked: Mapping[str, float] = field(default_factory=dict)
    whole: bool = True
    uncounted: bool = False
    tls: bool = False
    security: str = ""
