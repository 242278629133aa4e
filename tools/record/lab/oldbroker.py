"""A broker of Kafka 0.8 to 2.8 with its ZooKeeper, in a namespace of its own.

What it counted is in its log folder: the high watermark of each partition. It has no request log
that could be compared line by line.
"""

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lab.cache import FETCH_TIMEOUT, HERE, cache_folder
from lab.errors import RecorderError
from lab.namespace import Namespace
from lab.processes import end_group, run, start, wait_for

if TYPE_CHECKING:
    import subprocess

PORT = 9092
ZOOKEEPER = "127.0.0.1:2181"
# Old brokers reach into the JDK: closed since 17 unless it is told.
OPEN = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
)
SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOG4J = """\
log4j.rootLogger=INFO, O
log4j.appender.O=org.apache.log4j.ConsoleAppender
log4j.appender.O.target=System.err
log4j.appender.O.layout=org.apache.log4j.PatternLayout
log4j.appender.O.layout.ConversionPattern=%p %c %m%n
"""


def jars(version: str, scala: str) -> Path:
    """The folder with that version's jars; Maven fetches them once."""
    pom = HERE / "old.pom.xml"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / f"kafka-{version}-{digest}"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        which = [f"-Dkafka={version}", f"-Dscala={scala}", "-DincludeScope=runtime"]
        run(["mvn", "-q", "-B", "-f", str(pom), *goal, *which], timeout=FETCH_TIMEOUT)
        (folder / ".complete").touch()
    return folder


class OldBroker:
    """Started on entering and stopped on leaving, its ZooKeeper with it."""

    def __init__(self, version: str, scala: str, namespace: Namespace, folder: Path) -> None:
        self.version = version
        self.namespace = namespace
        self.folder = folder
        self.jars = jars(version, scala)
        self.children: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        (self.folder / "log4j.properties").write_text(LOG4J)
        (self.folder / "zookeeper.properties").write_text(
            f"dataDir={self.folder / 'zookeeper'}\nclientPort=2181\n"
            "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n"
        )
        (self.folder / "server.properties").write_text(self._properties())
        try:
            self._begin("org.apache.zookeeper.server.quorum.QuorumPeerMain", "zookeeper")
            wait_for("ZooKeeper to listen", lambda: self._listens(2181), timeout=30)
            self._begin("kafka.Kafka", "server")
            wait_for("the old broker to listen", lambda: self._listens(PORT), timeout=60)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the broker, then ZooKeeper."""
        while self.children:
            end_group(self.children.pop(), grace=15.0)

    def tool(self, main_class: str, *words: str, stdin: str | None = None) -> str:
        """Run one of this version's own command-line classes."""
        command = self.namespace.command(self._java(main_class, *words))
        told = run(command, timeout=60, stdin=stdin)
        return told.stdout + told.stderr

    def create_topic(self, name: str, partitions: int) -> None:
        """By way of ZooKeeper, as these versions did."""
        words = ("--create", "--topic", name, "--partitions", str(partitions))
        self.tool(
            "kafka.admin.TopicCommand",
            *("--zookeeper", ZOOKEEPER, *words, "--replication-factor", "1"),
        )

    def end_offsets(self) -> dict[str, dict[str, int]]:
        """``{topic: {partition: records}}``: the high watermarks that it wrote down as it ended."""
        found: dict[str, dict[str, int]] = {}
        checkpoint = self.folder / "data" / "replication-offset-checkpoint"
        for line in checkpoint.read_text().splitlines()[2:]:
            topic, partition, offset = line.split()
            if not topic.startswith("__"):
                found.setdefault(topic, {})[partition] = int(offset)
        return {topic: dict(sorted(parts.items())) for topic, parts in sorted(found.items())}

    def _java(self, main_class: str, *words: str) -> list[str]:
        log4j = f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}"
        quiet = "-Dzookeeper.jmx.log4j.disable=true"
        return ["java", *SMALL, *OPEN, log4j, quiet, "-cp", f"{self.jars}/*", main_class, *words]

    def _begin(self, main_class: str, name: str) -> None:
        words = self._java(main_class, str(self.folder / f"{name}.properties"))
        log = self.folder / f"{name}.log"
        self.children.append(start(self.namespace.command(words), log=log))

    def _listens(self, port: int) -> bool:
        if self.children[-1].poll() is not None:
            raise RecorderError(f"Kafka {self.version} or its ZooKeeper ended while starting")
        told = run(self.namespace.command(["ss", "-Hltn", f"sport = :{port}"]), timeout=10)
        return bool(told.stdout.strip())

    def _properties(self) -> str:
        # 0.8 knows no "listeners".
        where = "host.name=127.0.0.1\nport=9092\nadvertised.host.name=127.0.0.1\n"
        if not self.version.startswith("0.8"):
            where = "listeners=PLAINTEXT://127.0.0.1:9092\n"
        return (
            f"broker.id=0\n{where}log.dirs={self.folder / 'data'}\nzookeeper.connect={ZOOKEEPER}\n"
            "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
            "log.cleaner.enable=false\nauto.create.topics.enable=false\n"
            "group.initial.rebalance.delay.ms=300\n"
        )
