"""Brokers from 0.8 to 2.8, with clients that still speak with them and with their own tools."""

from typing import Any

from lab.oldbroker import PORT, ZOOKEEPER
from lab.scenario import Lab, Scenario, sends_of

CODECS = ("none", "gzip", "snappy")
CLIENTS = ("confluent", "kafka_python")
CONSOLE = "old-console"
LINES = 8
VERSIONS = (
    ("0.8.2.2", "2.11"),
    ("0.9.0.1", "2.11"),
    ("0.10.2.2", "2.11"),
    ("0.11.0.3", "2.11"),
    ("1.1.1", "2.11"),
    ("2.8.2", "2.13"),
)


def setup(lab: Lab) -> None:
    """A topic for each client, with a partition for each codec."""
    for client in CLIENTS:
        lab.old_broker.create_topic(f"old-{client}", len(CODECS))
    lab.old_broker.create_topic(CONSOLE, 1)


def run(lab: Lab) -> None:
    """Produce with each codec, read all of it once."""
    for client in CLIENTS:
        topic = f"old-{client}"
        about = _config(client, lab.old_broker.version)
        for part, codec in enumerate(CODECS):
            setting = "compression.type" if client == "confluent" else "compression_type"
            chosen = None if codec == "none" and client != "confluent" else codec
            sends = sends_of(topic, 8, 120, part)
            lab.worker(
                client,
                "produce",
                # kafka-python 2.0 may close before records with acks 0 have gone out.
                acks=(1, 0 if client == "confluent" else 1, -1)[part],
                old=True,
                client_id=f"{client}-{codec}",
                config=about | {setting: chosen},
                sends=sends,
            )
            lab.clients[-1]["codec"] = codec
        lab.consume(
            client,
            [[topic, part] for part in range(len(CODECS))],
            8 * len(CODECS),
            keep=True,
            config=about,
        )
    _console(lab)


def _config(client: str, version: str) -> dict[str, Any]:
    if client == "confluent":
        before = version.startswith(("0.8", "0.9"))
        spoken = {"api.version.request": False, "broker.version.fallback": version}
        return spoken if before else {}
    numbers = [int(word) for word in version.split(".")]
    return {"api_version": numbers[:3] if numbers[0] == 0 else numbers[:2]}


def _console(lab: Lab) -> None:
    """The version's own console tools; before 0.10 the consumer learned all from ZooKeeper."""
    broker = lab.old_broker
    lines = "".join(f"line {number}\n" for number in range(LINES))
    where = f"127.0.0.1:{PORT}"
    topic = ("--topic", CONSOLE)
    broker.tool("kafka.tools.ConsoleProducer", "--broker-list", where, *topic, stdin=lines)
    lab.java_client("produce", "console-producer", sent={CONSOLE: {"*": LINES}})
    server = ("--bootstrap-server", where)
    if broker.version.startswith(("0.8", "0.9")):
        server = ("--zookeeper", ZOOKEEPER)
    words = ("--from-beginning", "--max-messages", str(LINES))
    out = broker.tool("kafka.tools.ConsoleConsumer", *server, *topic, *words)
    read = sum(line.startswith("line ") for line in out.splitlines())
    lab.java_client("consume", "console-consumer", consumed={CONSOLE: {"*": read}})


SCENARIOS = tuple(
    Scenario(
        name=f"old-{version.replace('.', '-')}",
        summary=f"A broker of Kafka {version} with its own console tools and two clients that "
        "speak as it does, with three codecs.",
        setup=setup,
        run=run,
        old=(version, scala),
    )
    for version, scala in VERSIONS
)
