"""Real Kafka traffic to record: librdkafka clients and the brokers of its mock cluster.

    python traffic.py bulk|small|many

`benchmarks.captures` runs this inside its network namespace, with the Python of an environment
that has confluent-kafka; nothing else here is imported, and kanalyze is not needed. Every run is
bounded by counts, and every wait by a time limit.
"""

from __future__ import annotations

import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

PARTITIONS = 4  # of a topic that the mock cluster makes by itself
BROKERS = 3
LIMIT_S = 120.0

# The mock cluster keeps 5 MB of a partition: below that, readers find all that was written.
BULK_RECORDS, BULK_RECORD_BYTES, BULK_TOPICS = 78_000, 1024, 6
SMALL_RECORDS, SMALL_RECORD_BYTES, SMALL_PRODUCERS = 18_400, 840, 8
MANY_CLIENTS, MANY_RECORDS, MANY_RECORD_BYTES = 1_600, 6, 1_400

Config: TypeAlias = dict[str, str | int]
Job: TypeAlias = tuple[Any, ...]
"""A function and its arguments."""


def values(count: int, size: int) -> list[bytes]:
    """Return different values that look like text, so that a codec would find something to do."""
    noise = random.Random(f"{count} {size}")
    return [noise.randbytes(size // 2).hex().encode() for _ in range(count)]


def cluster() -> tuple[Producer, str]:
    """Start the mock cluster; return the client that holds it and its addresses."""
    holder = Producer({"client.id": "cluster", "test.mock.num.brokers": BROKERS})
    brokers = holder.list_topics(timeout=10).brokers.values()
    return holder, ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def produce(addresses: str, name: str, topic: str, records: int, size: int, more: Config) -> None:
    """Send records with one client, and wait for all of them to be acknowledged."""
    producer = Producer({"bootstrap.servers": addresses, "client.id": name, **more})
    some = values(64, size)
    for number in range(records):
        value, partition = some[number % len(some)], number % PARTITIONS
        while True:
            try:
                producer.produce(topic, value, key=str(number).encode(), partition=partition)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    if producer.flush(LIMIT_S):
        raise SystemExit(f"{name}: records are left")


def consume(addresses: str, name: str, topic: str, records: int, more: Config) -> None:
    """Read records of all partitions with one client, from the oldest that is kept."""
    config = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.id": name}
    consumer = Consumer({"bootstrap.servers": addresses, "client.id": name, **config, **more})
    consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in range(PARTITIONS)])
    end, left = time.monotonic() + LIMIT_S, records
    while left > 0:
        if time.monotonic() > end:
            raise SystemExit(f"{name}: {left} records are left")
        got = consumer.consume(500, timeout=1.0)
        left -= sum(1 for message in got if message.error() is None)
    consumer.close()


def together(jobs: list[Job]) -> None:
    """Run jobs side by side; the first failure is raised."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        for future in [pool.submit(*job) for job in jobs]:
            future.result()


def bulk(addresses: str) -> None:
    """Large batches to a few topics, each read once while it is written."""
    big: Config = {
        "batch.size": 1_000_000,
        "linger.ms": 50,
        "batch.num.messages": 100_000,
        "queue.buffering.max.kbytes": 16_384,
    }
    each = BULK_RECORDS // BULK_TOPICS
    jobs: list[Job] = []
    for number in range(BULK_TOPICS):
        topic = f"bulk-{number}"
        jobs.append((produce, addresses, f"writer-{number}", topic, each, BULK_RECORD_BYTES, big))
        jobs.append((consume, addresses, f"reader-{number}", topic, each, {}))
    together(jobs)


def small(addresses: str) -> None:
    """A record a request, several in flight; readers whose fetches bring one request's records."""
    quick: Config = {"linger.ms": 0, "batch.num.messages": 1, "acks": 1}
    eager: Config = {"fetch.wait.max.ms": 20, "fetch.min.bytes": 1}
    jobs: list[Job] = []
    for number in range(SMALL_PRODUCERS):
        topic, each = f"small-{number % 4}", SMALL_RECORDS // SMALL_PRODUCERS
        name = f"writer-{number}"
        jobs.append((produce, addresses, name, topic, each, SMALL_RECORD_BYTES, quick))
        if number % 2:
            jobs.append((consume, addresses, f"reader-{number}", topic, 2 * each, eager))
    together(jobs)


def many(addresses: str) -> None:
    """Clients that come, send a few records and go."""
    quick: Config = {"linger.ms": 0, "batch.num.messages": 1}
    with ThreadPoolExecutor(16) as pool:
        topics = [f"many-{number % 20}" for number in range(MANY_CLIENTS)]
        futures = [
            pool.submit(
                produce,
                addresses,
                f"client-{number}",
                topic,
                MANY_RECORDS,
                MANY_RECORD_BYTES,
                quick,
            )
            for number, topic in enumerate(topics)
        ]
        for future in futures:
            future.result()


def main() -> None:
    """Make the traffic that the command line names."""
    holder, addresses = cluster()
    {"bulk": bulk, "small": small, "many": many}[sys.argv[1]](addresses)
    holder.flush(1)


if __name__ == "__main__":
    try:
        main()
    except KafkaException as error:
        raise SystemExit(str(error)) from error
