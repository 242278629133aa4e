"""Real Kafka traffic to record: librdkafka's clients, its mock cluster or brokers.

    python traffic.py bulk|small|many
    python traffic.py mixed|compressed ADDRESSES

`benchmarks.captures` runs this inside its network namespace, with the Python of an environment
that has confluent-kafka; nothing else here is imported, and kanalyze is not needed. Every run is
bounded by counts, and every wait by a time limit.
"""

from __future__ import annotations

import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, Any, TypeAlias

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTITIONS = 4  # of a topic that the mock cluster makes by itself
BROKERS = 3
LIMIT_S = 120.0

# The mock cluster keeps 5 MB of a partition: below that, readers find all that was written.
BULK_RECORDS, BULK_RECORD_BYTES, BULK_TOPICS = 78_000, 1024, 6
SMALL_RECORDS, SMALL_RECORD_BYTES, SMALL_PRODUCERS = 18_400, 840, 8
MANY_CLIENTS, MANY_RECORDS, MANY_RECORD_BYTES = 1_600, 6, 1_400
MIXED_SMALL_PRODUCERS, MIXED_SMALL_RECORDS, MIXED_SMALL_RECORD_BYTES = 6, 30_000, 180
MIXED_LARGE_RECORDS, MIXED_LARGE_RECORD_BYTES, MIXED_LARGE_TOPICS = 24_000, 1024, 3
MIXED_BOTH_RECORDS, MIXED_SMALL_SHARE = 8_000, 20
"""Of one producer: of so many records one goes to a topic of small ones, alone."""
CODECS = ("gzip", "snappy", "lz4", "zstd")
COMPRESSED_RECORDS, COMPRESSED_RECORD_BYTES, COMPRESSED_BATCH_BYTES = 80_000, 1_000, 100_000
_WORD_BYTES = 7

Config: TypeAlias = dict[str, str | int]
Job: TypeAlias = tuple[Any, ...]
"""A function and its arguments."""


def cluster() -> tuple[Producer, str]:
    """Start the mock cluster; return the client that holds it and its addresses."""
    holder = Producer({"client.id": "cluster", "test.mock.num.brokers": BROKERS})
    brokers = holder.list_topics(timeout=10).brokers.values()
    return holder, ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def create_topics(addresses: str, topics: Sequence[str]) -> None:
    """Create topics on brokers that make none by themselves."""
    admin = AdminClient({"bootstrap.servers": addresses, "client.id": "admin"})
    wanted = [NewTopic(topic, PARTITIONS, 1) for topic in topics]
    for future in admin.create_topics(wanted, operation_timeout=LIMIT_S).values():
        future.result(LIMIT_S)
    # A broker that does not know yet what it leads drops what nobody wants acknowledged.
    time.sleep(3.0)


def produce(
    addresses: str, name: str, topics: Sequence[str], records: int, size: int, more: Config
) -> Producer:
    """Send records to topics in turn with one client, wait for all to be sent, and return it.

    Every record is of random bytes: no codec finds anything to do, within a record or between them.
    Where the client compresses, it is of words: a codec leaves a third to a half of it.
    It closes its connections when nobody holds it any more. Where it asks for no acknowledgement,
    a broker may not have read all by then.
    """
    producer = Producer({"bootstrap.servers": addresses, "client.id": name, **more})
    noise = random.Random(f"{name} {records} {size}")
    words = [noise.randbytes(_WORD_BYTES).hex()[:_WORD_BYTES] + " " for _ in range(1000)]
    is_text = "compression.type" in more
    for number in range(records):
        topic, partition = topics[number % len(topics)], number // len(topics) % PARTITIONS
        some = size // (_WORD_BYTES + 1)
        value = "".join(noise.choices(words, k=some)).encode() if is_text else noise.randbytes(size)
        while True:
            try:
                producer.produce(topic, value, key=str(number).encode(), partition=partition)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    if producer.flush(LIMIT_S):
        raise SystemExit(f"{name}: records are left")
    return producer


def reader(addresses: str, name: str, topics: Sequence[str], more: Config) -> Consumer:
    """Return a client that reads all partitions of topics, from the oldest record that is kept."""
    config = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.id": name}
    consumer = Consumer({"bootstrap.servers": addresses, "client.id": name, **config, **more})
    consumer.assign(
        [
            TopicPartition(topic, partition, OFFSET_BEGINNING)
            for topic in topics
            for partition in range(PARTITIONS)
        ]
    )
    return consumer


def consume(addresses: str, name: str, topic: str, records: int, more: Config) -> None:
    """Read so many records of a topic with one client."""
    consumer = reader(addresses, name, [topic], more)
    end, left = time.monotonic() + LIMIT_S, records
    while left > 0:
        if time.monotonic() > end:
            raise SystemExit(f"{name}: {left} records are left")
        left -= len(records_of(consumer))
    consumer.close()


def follow(
    is_written: Event, addresses: str, name: str, topics: Sequence[str], more: Config
) -> None:
    """Read topics with one client until all is written and nothing comes any more."""
    consumer = reader(addresses, name, topics, more)
    end, was_written, found = time.monotonic() + LIMIT_S, False, True
    while found or not was_written:
        if time.monotonic() > end:
            raise SystemExit(f"{name}: the end of the topics is not in sight")
        was_written = is_written.is_set()
        found = bool(records_of(consumer))
    consumer.close()


def records_of(consumer: Consumer) -> list[Message]:
    """Return records that come within a second."""
    return [message for message in consumer.consume(500, timeout=1.0) if message.error() is None]


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
        jobs.append((produce, addresses, f"writer-{number}", [topic], each, BULK_RECORD_BYTES, big))
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
        jobs.append((produce, addresses, name, [topic], each, SMALL_RECORD_BYTES, quick))
        if number % 2:
            jobs.append((consume, addresses, f"reader-{number}", topic, 2 * each, eager))
    together(jobs)


def many(addresses: str) -> None:
    """Clients that come, send a few records and go."""
    with ThreadPoolExecutor(16) as pool:
        numbers = range(MANY_CLIENTS)
        for future in [pool.submit(come_and_go, addresses, number) for number in numbers]:
            future.result()


def come_and_go(addresses: str, number: int) -> None:
    """Send a few records with one client, and close its connections."""
    quick: Config = {"linger.ms": 0, "batch.num.messages": 1}
    name, topic = f"client-{number}", f"many-{number % 20}"
    produce(addresses, name, [topic], MANY_RECORDS, MANY_RECORD_BYTES, quick)


def mixed(addresses: str) -> None:
    """Many small requests beside large batches; every other producer asks for no acknowledgement.

    For Kafka's own brokers: the mock cluster answers even to those who asked for no answer.
    Producers send to several topics in turn, and one sends both small requests and large batches.
    Small records are read by a client of their own, and once more by one that reads everything.
    """
    quick: Config = {"linger.ms": 0, "batch.num.messages": 1}
    eager: Config = {"fetch.wait.max.ms": 20, "fetch.min.bytes": 1}
    big: Config = {"batch.size": 500_000, "linger.ms": 20, "batch.num.messages": 100_000}
    small = ["clicks", "logs", "metrics"]
    large = [f"files-{number}" for number in range(MIXED_LARGE_TOPICS)]
    create_topics(addresses, small + large)
    writers: list[Job] = []
    size, each = MIXED_SMALL_RECORD_BYTES, MIXED_SMALL_RECORDS // MIXED_SMALL_PRODUCERS
    for number in range(MIXED_SMALL_PRODUCERS):
        acks: Config = {**quick, "acks": number % 2}
        writers.append((produce, addresses, f"small-{number}", small, each, size, acks))
    size, each = MIXED_LARGE_RECORD_BYTES, MIXED_LARGE_RECORDS // MIXED_LARGE_TOPICS
    for number, topic in enumerate(large):
        acks = {**big, "acks": number % 2}
        writers.append((produce, addresses, f"large-{number}", [topic], each, size, acks))
    both = [large[0]] * (MIXED_SMALL_SHARE - 1) + small[:1]
    acks = {**big, "acks": 1}
    writers.append((produce, addresses, "both", both, MIXED_BOTH_RECORDS, size, acks))
    readers: list[Job] = [
        (follow, addresses, "reader", small + large, eager),
        (follow, addresses, "small-reader", small, eager),
        *((follow, addresses, f"{topic}-reader", [topic], {}) for topic in large),
    ]
    write_and_follow(writers, readers)


def write_and_follow(writers: list[Job], readers: list[Job]) -> None:
    """Let some write and others follow them until nothing comes any more."""
    is_written = Event()

    def write() -> None:
        try:
            together(writers)
        finally:
            is_written.set()

    together([*((job, is_written, *rest) for job, *rest in readers), (write,)])


def compressed(addresses: str) -> None:
    """Batches of 100 kB, a topic for each codec, each read once while it is written."""
    create_topics(addresses, CODECS)
    size, each = COMPRESSED_RECORD_BYTES, COMPRESSED_RECORDS // len(CODECS)
    writers: list[Job] = []
    readers: list[Job] = []
    for codec in CODECS:
        full: Config = {
            "compression.type": codec,
            "batch.size": COMPRESSED_BATCH_BYTES,
            "linger.ms": 500,
        }
        writers.append((produce, addresses, f"{codec}-writer", [codec], each, size, full))
        readers.append((follow, addresses, f"{codec}-reader", [codec], {}))
    write_and_follow(writers, readers)


def main() -> None:
    """Make the traffic that the command line names."""
    kind, *addresses = sys.argv[1:]
    if addresses:
        {"mixed": mixed, "compressed": compressed}[kind](addresses[0])
        return
    holder, mock_addresses = cluster()
    {"bulk": bulk, "small": small, "many": many}[kind](mock_addresses)
    holder.flush(1)


if __name__ == "__main__":
    try:
        main()
    except KafkaException as error:
        raise SystemExit(str(error)) from error
