"""Clients that push their own metrics to the broker (KIP-714)."""

import json
from typing import Any

from lab.scenario import CONFIGS, PERFORMANCE, Lab, Scenario

TOPIC = "telemetry"
WANTED = (
    "org.apache.kafka.producer.node.request.latency",
    "org.apache.kafka.producer.record.send.total",
    "org.apache.kafka.consumer.fetch.manager.fetch.latency",
    "org.apache.kafka.consumer.fetch.manager.records.consumed.total",
    "org.apache.kafka.consumer.coordinator.commit",
)
JMX = "org.apache.kafka.common.metrics.JmxReporter"
PUSHED = ("client_id", "instance", "is_last", "metric", "kind", "is_delta", "labels", "value")


def setup(lab: Lab) -> None:
    """A topic, and the subscription of all clients to some metrics."""
    lab.create_topics({TOPIC: {"partitions": 2}})
    metrics = f"metrics=[{','.join(WANTED)}],interval.ms=1000"
    subscribed = ("--entity-type", "client-metrics", "--entity-name", "all")
    lab.tool(CONFIGS, "--alter", "--add-config", metrics, *subscribed)


def _read(line: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(line, parse_constant=lambda _: None)
    return read


def run(lab: Lab) -> None:
    """A producer and a consumer of some seconds; what the broker got of their metrics."""
    words = ["--topic", TOPIC, "--num-records", "400", "--record-size", "10"]
    words += ["--throughput", "100"]
    words += ["--command-property", "client.id=meter", "linger.ms=200"]
    lab.tool(PERFORMANCE, *words)
    lab.java_client("produce", "meter", sent={TOPIC: {"*": 400}})
    options = "--from-beginning --timeout-ms 8000 --group readers"
    lab.console_consumer(TOPIC, options, client_id="reader")
    lines = (lab.broker.folder / "telemetry.jsonl").read_text().splitlines()
    # A gauge of nothing is no number.
    pushed = [[line[name] for name in PUSHED] for line in map(_read, lines)]
    lab.java_client("push", "meter, reader", pushed=pushed)


SCENARIO = Scenario(
    name="telemetry",
    summary="A producer and a consumer that push metrics of their own once a second, to a broker "
    "with a reporter that takes them; the truth has each number as Kafka's own classes read it.",
    setup=setup,
    run=run,
    settings={"metric.reporters": f"{JMX},TelemetryReceiver"},
)
