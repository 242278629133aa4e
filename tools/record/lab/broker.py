"""One combined KRaft node, alone in its namespace, with a log of every request it completed."""

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lab import jmx
from lab.cache import HERE, Tools
from lab.errors import RecorderError
from lab.namespace import Namespace
from lab.processes import end_group, need, run, start, wait_for

if TYPE_CHECKING:
    import subprocess

PORTS = {
    "PLAINTEXT": 9092,
    "CONTROLLER": 9093,
    "SSL": 9094,
    "IPV6": 9095,
    "INTERNAL": 9096,
    "SASL": 9097,
    "SASL_SSL": 9098,
}
PROTOCOLS = (
    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,IPV6:PLAINTEXT,INTERNAL:PLAINTEXT,"
    "SASL:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
)
CLIENT_LISTENERS = ("PLAINTEXT", "SSL", "IPV6", "SASL", "SASL_SSL")
# Of the SASL listeners of a broker that lives for a minute in a namespace of its own.
PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
SASL_MODULE = "org.apache.kafka.common.security"
JVM = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def address(listener: str) -> str:
    """Where a client finds a listener."""
    host = "[::1]" if listener == "IPV6" else "127.0.0.1"
    return f"{host}:{PORTS[listener]}"


class Broker:
    """Started on entering and stopped on leaving."""

    def __init__(
        self,
        tools: Tools,
        namespace: Namespace,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        jars: Path | None = None,
    ) -> None:
        self.tools = tools
        self.jars = jars
        self.namespace = namespace
        self.folder = folder
        self.settings = dict(settings or {})
        self.data = folder / "data"
        self.classes = folder / "classes"
        self.requests = folder / "requests.log"
        self.certificate = folder / "certificate.pem"
        self.child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.prepare()
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def prepare(self) -> None:
        """Make the key, the properties file and the formatted storage."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_key()
        for name in self.settings.get("metric.reporters", "").split(","):
            if name and "." not in name:
                self._compile(name)
        properties = self.folder / "server.properties"
        lines = (f"{key}={value}" for key, value in self._properties().items())
        properties.write_text("\n".join(lines) + "\n")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        form = ["format", f"--cluster-id={cluster}", f"--config={properties}"]
        run(self._java("kafka.tools.StorageTool", *form), timeout=60)

    def start(self) -> None:
        """Start it and wait until it says so."""
        options = (
            *JVM,
            *self._watched(),
            f"-Dlab.logs={self.folder}",
            f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
        )
        command = self._java("kafka.Kafka", str(self.folder / "server.properties"), options=options)
        self.child = start(self.namespace.command(command), log=self.folder / "stdout.log")
        try:
            wait_for("the broker to start", self._started, timeout=90)
        except BaseException:
            self.stop()
            raise

    def stop(self, grace: float = 30.0) -> None:
        """End it as an operator would, then by force."""
        if self.child is not None:
            end_group(self.child, grace=grace)
            self.child = None

    def counts(self) -> dict[str, float]:
        """What it has counted so far."""
        return jmx.read(self.tools, self.namespace)

    def wait_idle(self, timeout: float = 60.0) -> None:
        """Wait until no client is connected, as the kernel sees it."""
        wait_for(
            "the clients' connections to close",
            lambda: not self._connected(),
            timeout=timeout,
            every=0.2,
        )

    def completed(self) -> int:
        """The length of the request log: a mark to read from later."""
        return self.requests.stat().st_size if self.requests.exists() else 0

    def completed_since(self, mark: int, until: int | None = None) -> list[str]:
        """The request log's lines after a mark, or between two marks."""
        content = self.requests.read_bytes()[mark:until]
        return content.decode().splitlines()

    def topic_ids(self) -> dict[str, str]:
        """Topic ids, from the files the broker keeps beside its logs."""
        found: dict[str, str] = {}
        for file in sorted(self.data.glob("*/partition.metadata")):
            for line in file.read_text().splitlines():
                name, _, value = line.partition(":")
                if name == "topic_id":
                    found[file.parent.name.rpartition("-")[0]] = value.strip()
        return found

    def server_log(self) -> str:
        """The broker's own words."""
        return (self.folder / "server.log").read_text(errors="replace")

    def _java(self, main_class: str, *words: str, options: tuple[str, ...] = JVM) -> list[str]:
        """A command line of the broker's own version, which may be another than the tools'."""
        if self.jars is None:
            classes = self.classes if self.classes.exists() else None
            return self.tools.java(main_class, *words, options=options, classes=classes)
        # Before 4.0 Kafka came with a log4j that can't write a request's time as a number.
        newer = sorted(self.tools.jars.glob("log4j-*.jar"))
        path = ":".join(map(str, (*newer, self.jars / "*")))
        return ["java", *options, "-cp", path, main_class, *words]

    def _watched(self) -> tuple[str, ...]:
        """JVM options that open its counters."""
        return tuple(jmx.options())

    def _started(self) -> bool:
        if self.child is None or self.child.poll() is not None:
            tail = (self.folder / "stdout.log").read_text(errors="replace").strip()[-300:]
            raise RecorderError(f"the broker ended while starting: {tail}")
        log = self.folder / "server.log"
        return log.exists() and "Kafka Server started" in log.read_text(errors="replace")

    def _connected(self) -> bool:
        ports = {str(PORTS[listener]) for listener in CLIENT_LISTENERS}
        told = run(
            self.namespace.command(
                [
                    "ss",
                    "-Htn",
                    "state",
                    "established",
                    "state",
                    "close-wait",
                    "state",
                    "fin-wait-1",
                    "state",
                    "fin-wait-2",
                    "state",
                    "last-ack",
                ]
            ),
            timeout=10,
        )
        locals_ = (line.split()[3] for line in told.stdout.splitlines() if len(line.split()) > 4)
        return any(local.rpartition(":")[2] in ports for local in locals_)

    def _compile(self, name: str) -> None:
        """Compile a class of ours that runs inside the broker."""
        source = HERE / "clients" / f"{name}.java"
        path = ["-cp", f"{self.tools.jars}/*", "-d", str(self.classes)]
        run(["javac", *path, str(source)], timeout=60)

    def _make_key(self) -> None:
        need("openssl")
        key, chain = self.folder / "key.pem", self.folder / "keystore.pem"
        run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost,IP:127.0.0.1",
                "-keyout",
                str(key),
                "-out",
                str(self.certificate),
            ],
            timeout=60,
        )
        chain.write_text(key.read_text() + self.certificate.read_text())

    def _properties(self) -> dict[str, str]:
        listeners = ",".join(f"{name}://{address(name)}" for name in PORTS)
        told = (*CLIENT_LISTENERS, "INTERNAL")
        public = ",".join(f"{name}://{address(name)}" for name in told)
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{address('CONTROLLER')}",
            "controller.listener.names": "CONTROLLER",
            "listeners": listeners,
            "advertised.listeners": public,
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": PROTOCOLS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.folder / "keystore.pem"),
            **_sasl("listener.name.sasl"),
            **_sasl("listener.name.sasl_ssl"),
            "log.dirs": str(self.data),
            "num.network.threads": "2",
            "num.io.threads": "4",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "500",
            "group.min.session.timeout.ms": "1000",
            "log.cleaner.enable": "false",
            **{key: value.format(folder=self.folder) for key, value in self.settings.items()},
        }


def _sasl(listener: str) -> dict[str, str]:
    """Settings of a listener with SASL."""
    users = " ".join(f'user_{name}="{word}"' for name, word in PASSWORDS.items())
    scram = f"{SASL_MODULE}.scram.ScramLoginModule required;"
    plain = f"{SASL_MODULE}.plain.PlainLoginModule required {users};"
    return {
        f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{listener}.plain.sasl.jaas.config": plain,
        f"{listener}.scram-sha-256.sasl.jaas.config": scram,
        f"{listener}.scram-sha-512.sasl.jaas.config": scram,
    }
