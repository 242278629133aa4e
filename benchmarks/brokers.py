"""Brokers of Apache Kafka to record traffic of, and Java clients that make some.

`benchmarks.captures` runs both in its network namespace. Kafka's jars are those of
`tools/record/pom.xml`, which Maven fetches once into $KANALYZE_CACHE. What the Java clients do is
in `java/Traffic.java`, which Java runs from its source. Every program ends when its time is over,
even where nobody is left to end it.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.errors import BenchmarkError, need, output_of
from tests.support.broker import importable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BROKERS = 3
RECORDS = 16_000
JAVA, OWN_COUNTERS = "java", "java-own-counters"
_LIMIT_S = 900
"""Of a broker; clients have limits of their own."""
_PROGRAM = Path(__file__).resolve().parent / "java" / "Traffic.java"
_SMALL = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Inside(NamedTuple):
    """Where brokers run, and for how long at most: for the recorder, a namespace."""

    words: tuple[str, ...]

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command that runs another one there."""
        return [*self.words, "timeout", "--kill-after=10", str(_LIMIT_S), *words]


class Readers(NamedTuple):
    """What the Java clients read, and how many they are."""

    partitions: int
    """Of each of two topics; a broker leads a third of them."""
    members: int
    """Of each of two groups."""


SHAPES = {JAVA: Readers(6, 2), OWN_COUNTERS: Readers(300, 1)}
"""By the kind of capture: a fetch session of *java* has two partitions, or four where members share
them; one of *java-own-counters* has 200."""


class Cluster(NamedTuple):
    """Brokers that are up."""

    jars: Path
    addresses: str
    """Of all of them, as clients want them."""

    @property
    def packet_filter(self) -> str:
        """What tcpdump takes: what clients and brokers say, not what brokers say to each other."""
        ports = (address.rpartition(":")[2] for address in self.addresses.split(","))
        return " or ".join(f"tcp port {port}" for port in ports)


@contextmanager
def cluster(inside: tuple[str, ...], brokers: int = BROKERS) -> Iterator[Cluster]:
    """Start brokers in a namespace; they are stopped, and what they wrote is gone, at the end."""
    need("java", "mvn", "timeout")
    with importable():
        from lab import cluster as lab_cluster
        from lab.cache import Tools, jars, kafka_version
        from lab.errors import RecorderError
    try:
        tools = Tools(jars(), Path(sys.executable), kafka_version())
        with (
            tempfile.TemporaryDirectory() as folder,
            lab_cluster.Cluster(tools, Inside(inside), Path(folder), brokers) as nodes,
        ):
            ports = (lab_cluster.port(lab_cluster.CLIENTS, node.number) for node in nodes.nodes)
            yield Cluster(tools.jars, ",".join(f"127.0.0.1:{port}" for port in ports))
    except RecorderError as error:
        raise BenchmarkError(str(error)) from error


def java_traffic(
    inside: tuple[str, ...], up: Cluster, records: int = RECORDS, readers: Readers = SHAPES[JAVA]
) -> None:
    """Let Java clients send and read so many records; raises BenchmarkError when that fails."""
    java = ("java", *_SMALL, "-cp", f"{up.jars}/*", str(_PROGRAM))
    output_of(*inside, *java, up.addresses, *map(str, (records, *readers)))
