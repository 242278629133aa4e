"""Batches and messages of many packets, and answers cut in the middle of a batch."""

from lab.scenario import PERFORMANCE, Lab, Scenario, sends_of

TOPICS = ("large-confluent", "large-kafka_python", "large-aiokafka", "large-java")


def setup(lab: Lab) -> None:
    """One partition each, so that a batch is as large as it can be."""
    lab.create_topics({topic: {"partitions": 1} for topic in TOPICS})


def run(lab: Lab) -> None:
    """Write large, read large, read in pieces."""
    _produce(
        lab, "confluent", count=30, size=10_000, config={"batch.size": 900_000, "linger.ms": 500}
    )
    _produce(
        lab, "kafka_python", count=12, size=10_000, config={"batch_size": 400_000, "linger_ms": 500}
    )
    _produce(
        lab, "aiokafka", count=8, size=10_000, config={"max_batch_size": 400_000, "linger_ms": 500}
    )
    lab.console_producer("large-java", ["x" * 80_000], acks="1")
    _performance(lab)
    lab.consume("confluent", [["large-confluent", 0]], 30)
    lab.consume("kafka_python", [["large-kafka_python", 0]], 12)
    # The limit falls inside a batch: the broker sends what fits, and the rest once more later.
    lab.consume("aiokafka", [["large-java", 0]], 25, config={"max_partition_fetch_bytes": 100_000})


def _produce(lab: Lab, client: str, *, count: int, size: int, config: dict[str, int]) -> None:
    lab.produce(client, sends_of(f"large-{client}", count, size), config=config)


def _performance(lab: Lab) -> None:
    words = ["--topic", "large-java", "--num-records", "24", "--record-size", "5000"]
    words += ["--throughput", "-1"]
    for setting in ("acks=all", "batch.size=32000", "linger.ms=200", "client.id=perf"):
        words += ["--command-property", setting]
    out, _ = lab.tool(PERFORMANCE, *words)
    sent = int(out.strip().splitlines()[-1].split()[0])
    lab.java_client("produce", "perf", acks="all", sent={"large-java": {"*": sent}})


SCENARIO = Scenario(
    name="large",
    summary="Batches of 80 to 300 KB and one message of 80 KB, written and read over frames of "
    "1500 bytes; a consumer whose limit cuts batches at the end of its answers.",
    setup=setup,
    run=run,
)
