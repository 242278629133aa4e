"""Counts read over JMX, with the tool that Kafka ships for it."""

from collections.abc import Mapping, Sequence

from lab.cache import Tools
from lab.namespace import Namespace
from lab.processes import run

PORT = 9990

QUERIES: tuple[str, ...] = (
    "kafka.network:type=RequestMetrics,name=RequestsPerSec,*",
    "kafka.network:type=RequestMetrics,name=ErrorsPerSec,*",
    "kafka.server:type=BrokerTopicMetrics,*",
    "kafka.server:type=socket-server-metrics,*",
    "kafka.log:type=Log,name=LogEndOffset,*",
    "kafka.log:type=Log,name=LogStartOffset,*",
    "kafka.log:type=Log,name=Size,*",
)


def options() -> list[str]:
    """JVM options that open JMX on the loopback of the broker's own namespace only."""
    start = "-Dcom.sun.management.jmxremote"
    return [
        f"{start}.port={PORT}",
        f"{start}.rmi.port={PORT}",
        f"{start}.host=127.0.0.1",
        f"{start}.authenticate=false",
        f"{start}.ssl=false",
        "-Djava.rmi.server.hostname=127.0.0.1",
    ]


def read(tools: Tools, namespace: Namespace, queries: Sequence[str] = QUERIES) -> dict[str, float]:
    """Every numeric attribute of the beans asked for, as ``bean:attribute``."""
    words: list[str] = []
    for query in queries:
        words += ["--object-name", query]
    url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{PORT}/jmxrmi"
    command = tools.java(
        "org.apache.kafka.tools.JmxTool",
        "--jmx-url",
        url,
        "--one-time",
        "--report-format",
        "properties",
        *words,
    )
    told = run(namespace.command(command), timeout=60)
    return numbers(told.stdout)


def numbers(properties: str) -> dict[str, float]:
    """The ``name=value`` lines whose value is a number; bean names hold ``=`` themselves."""
    found: dict[str, float] = {}
    for line in properties.splitlines():
        name, _, value = line.rpartition("=")
        try:
            found[name] = float(value)
        except ValueError:
            continue
    return found


def bean(name: str) -> tuple[dict[str, str], str]:
    """A name as printed, cut into its key properties and the attribute."""
    domain_and_keys, _, attribute = name.rpartition(":")
    keys = domain_and_keys.partition(":")[2]
    pairs = (pair.partition("=") for pair in keys.split(","))
    return {key: value for key, _, value in pairs}, attribute


def rise(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What each number grew by; a bean that appeared in between began at 0."""
    return {name: value - before.get(name, 0.0) for name, value in after.items()}
