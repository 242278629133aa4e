"""Jobs for confluent-kafka (librdkafka)."""

import json
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from common import Job, Result, Tally, main, messages

OFFSETS = {"earliest": confluent_kafka.OFFSET_BEGINNING, "latest": confluent_kafka.OFFSET_END}
BROKER_COUNTS = ("tx", "rx", "txbytes", "rxbytes", "txerrs", "rxerrs", "connects", "disconnects")


class Statistics:
    """The newest statistics object that librdkafka gave."""

    def __init__(self) -> None:
        self.newest: dict[str, Any] = {}
        self.seen = 0

    def __call__(self, text: str) -> None:
        """Take one object: this is librdkafka's ``stats_cb``."""
        self.newest = json.loads(text)
        self.seen += 1

    def result(self) -> Result:
        """What each connected broker object counted: requests by type, bytes, connects."""
        brokers = {}
        for name, broker in sorted(self.newest.get("brokers", {}).items()):
            if broker["tx"] == 0:
                continue
            counts: Result = {key: broker[key] for key in BROKER_COUNTS}
            counts["req"] = {api: n for api, n in sorted(broker["req"].items()) if n}
            brokers[name] = counts
        return {"brokers": brokers}


def settings(job: Job, **more: Any) -> dict[str, Any]:
    """Native settings: the job's own win."""
    return {
        "bootstrap.servers": job.get("bootstrap", ""),
        "client.id": job["client_id"],
        "broker.address.family": "any",
        **more,
        **job.get("config", {}),
    }


def about(job: Job) -> Result:
    """Who this client is."""
    return {
        "library": "confluent-kafka",
        "version": confluent_kafka.__version__,
        "librdkafka": confluent_kafka.libversion()[0],
        "client_id": job["client_id"],
    }


def wait_statistics(statistics: Statistics, poll: Callable[[float], object]) -> None:
    """Poll until librdkafka has spoken twice more, so that its counts are those of now."""
    wanted, end = statistics.seen + 2, time.monotonic() + 10
    while statistics.seen < wanted and time.monotonic() < end:
        poll(0.1)


def produce(job: Job) -> Result:
    """Send every record, wait for every report."""
    tally, statistics = Tally(), Statistics()
    config = {"acks": job["acks"], "stats_cb": statistics, "statistics.interval.ms": 200}
    producer = Producer(settings(job, **config))
    _send(producer, job, tally)
    wait_statistics(statistics, producer.poll)
    return about(job) | {"acks": job["acks"]} | tally.result() | {"statistics": statistics.result()}


def _send(producer: Producer, job: Job, tally: Tally) -> None:
    def report(error: KafkaError | None, message: Any) -> None:
        if error is None:
            tally.add("acknowledged", message.topic(), message.partition())
        else:
            tally.error(error.name())

    for topic, partition, key, value, headers in messages(job):
        producer.produce(topic, value, key, partition, on_delivery=report, headers=headers)
        tally.add("sent", topic, partition)
        if job.get("one_at_a_time"):
            producer.flush(10)
        producer.poll(0)
    producer.flush(30)


def transactions(job: Job) -> Result:
    """Each of ``rounds`` is a transaction: its records, a group's offsets, its end."""
    tally = Tally()
    producer = Producer(settings(job))
    reader = Consumer(settings(job, **{"group.id": f"{job['client_id']}-group"}))
    producer.init_transactions(20)
    for turn in job["rounds"]:
        end = "committed" if turn["commit"] else "aborted"
        producer.begin_transaction()
        for topic, partition, key, value, headers in messages(turn):
            producer.produce(topic, value, key, partition, headers=headers)
            for what in ("sent", "acknowledged", end):
                tally.add(what, topic, partition)
        producer.flush(20)
        offsets = [TopicPartition(topic, part, at) for topic, part, at in turn.get("offsets", [])]
        if offsets:
            producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), 20)
        if turn["commit"]:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)
    reader.close()
    return about(job) | tally.result()


def consume(job: Job) -> Result:
    """Read a number of records from given partitions, then go on asking for a while."""
    tally, statistics = Tally(), Statistics()
    keep = bool(job.get("keep"))
    consumer = Consumer(
        settings(
            job,
            **{
                "group.id": job.get("group", f"{job['client_id']}-group"),
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": job.get("isolation", "read_uncommitted"),
                "stats_cb": statistics,
                "statistics.interval.ms": 200,
            },
        )
    )
    offset = job.get("offset", "earliest")
    start = OFFSETS[offset] if isinstance(offset, str) else int(offset)
    consumer.assign([TopicPartition(topic, part, start) for topic, part in job["assign"]])
    read(consumer, tally, int(job["count"]), job.get("patience", 20), keep=keep)
    _linger(consumer, tally, job.get("linger", 0))
    if job.get("statistics"):
        # No fetch may be on its way while the counts are read: they must be the last ones.
        consumer.pause(consumer.assignment())
        _linger(consumer, tally, 1.5)
        wait_statistics(statistics, consumer.poll)
    consumer.close()
    found = about(job) | tally.result()
    if "isolation" in job:
        found["isolation_level"] = job["isolation"]
    return found | ({"statistics": statistics.result()} if job.get("statistics") else {})


def read(
    consumer: Consumer, tally: Tally, count: int, patience: float, *, keep: bool = False
) -> None:
    """Poll until so many records were read, an error was reported, or patience ends."""
    end = time.monotonic() + patience
    wanted = tally.total("consumed") + count
    while tally.total("consumed") < wanted and time.monotonic() < end:
        if not _take(consumer, tally, 0.2, keep=keep):
            return


def _take(consumer: Consumer, tally: Tally, timeout: float, *, keep: bool = False) -> bool:
    message = consumer.poll(timeout)
    if message is None:
        return True
    error = message.error()
    if error is not None:
        tally.error(error.name())
        return False
    topic, partition = message.topic() or "", message.partition() or 0
    tally.add("consumed", topic, partition)
    if keep:
        headers: Any = message.headers() or []
        place = (topic, partition, message.offset() or 0)
        content: Any = (message.key(), message.value())
        tally.record(place, message.timestamp()[1], content, headers)
    return True


def _linger(consumer: Consumer, tally: Tally, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _take(consumer, tally, 0.1)


def group(job: Job) -> Result:
    """Two members of one group: the second joins, then leaves."""
    tally = Tally()
    assignments: list[dict[str, list[str]]] = []
    first = _member(job, "first", tally)
    read(first, tally, int(job["count"]), 30)
    first.commit(asynchronous=False)
    assignments.append({"first": _held(first)})
    second = _member(job, "second", tally)
    members = {"first": first, "second": second}
    _poll_until(members, tally, lambda: bool(_held(first)) and bool(_held(second)))
    assignments.append({name: _held(member) for name, member in members.items()})
    second.close()
    _poll_until({"first": first}, tally, lambda: len(_held(first)) == int(job["partitions"]))
    assignments.append({"first": _held(first)})
    first.commit(offsets=first.committed(first.assignment(), 10), asynchronous=False)
    first.close()
    return about(job) | tally.result() | {"assignments": assignments}


def _member(job: Job, name: str, tally: Tally) -> Consumer:
    config = {
        "group.id": job["group"],
        "client.id": f"{job['client_id']}-{name}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
    }
    consumer = Consumer(settings(job) | config)
    consumer.subscribe(job["topics"], on_revoke=lambda *_: tally.add("revocations", name, 0))
    return consumer


def _held(consumer: Consumer) -> list[str]:
    return sorted(f"{part.topic}/{part.partition}" for part in consumer.assignment())


def _poll_until(members: dict[str, Consumer], tally: Tally, reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 40
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError("the group did not settle")
        for consumer in members.values():
            _take(consumer, tally, 0.1)


def create_topics(job: Job) -> Result:
    """Create topics: ``{name: {"partitions": n, "replication": 1, "config": {...}}}``."""
    admin = AdminClient(settings(job))
    wanted = [
        NewTopic(
            name, what["partitions"], what.get("replication", 1), config=what.get("config", {})
        )
        for name, what in job["topics"].items()
    ]
    for future in admin.create_topics(wanted).values():
        future.result(30)
    return about(job)


def administer(job: Job) -> Result:
    """A topic's life seen from an administrator: created, described, changed, deleted."""
    tally = Tally()
    admin = AdminClient(settings(job))
    topic = job["topic"]
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(20)
    _refusal(tally, admin.create_topics([NewTopic(topic, 2, 1)])[topic])
    admin.list_topics(topic, timeout=10)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin.describe_configs([resource])[resource].result(20)
    entry = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(20)
    admin.list_consumer_groups().result(20)
    admin.describe_cluster().result(20)
    admin.delete_topics([topic])[topic].result(20)
    return about(job) | tally.result()


def _refusal(tally: Tally, future: Any) -> None:
    try:
        future.result(20)
    except KafkaException as error:
        tally.error(error.args[0].name())


def mock(job: Job) -> Result:
    """A cluster inside librdkafka, a producer and a consumer of it."""
    tally, statistics = Tally(), Statistics()
    config = {
        "test.mock.num.brokers": job["brokers"],
        "acks": "all",
        "stats_cb": statistics,
        "statistics.interval.ms": 200,
    }
    producer = Producer({"client.id": job["client_id"], **config, **job.get("config", {})})
    _send(producer, job, tally)
    wait_statistics(statistics, producer.poll)
    produced = about(job) | tally.result() | {"statistics": statistics.result()}
    brokers = producer.list_topics(timeout=10).brokers.values()
    produced["mock_brokers"] = {str(broker.id): broker.port for broker in brokers}
    wait_statistics(statistics, producer.poll)
    produced["statistics"] = statistics.result()
    reading = job["consume"] | {
        "bootstrap": ",".join(f"{broker.host}:{broker.port}" for broker in brokers),
        "statistics": True,
    }
    return {"clients": [produced, consume(reading)]}


if __name__ == "__main__":
    main(
        {
            "produce": produce,
            "knock": produce,
            "transactions": transactions,
            "consume": consume,
            "group": group,
            "create_topics": create_topics,
            "administer": administer,
            "mock": mock,
        }
    )
