"""Jobs for kafka-python."""

import time
from collections.abc import Callable
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from common import Job, Result, Tally, held, main, messages, settings_of, settings_of_member


def settings(job: Job, **more: Any) -> dict[str, Any]:
    """Native settings: the job's own win."""
    config = settings_of(job, **more)
    if "api_version" in config:
        config["api_version"] = tuple(config["api_version"])
    return config


def about(job: Job) -> Result:
    """Who this client is."""
    return {
        "library": "kafka-python",
        "version": kafka.__version__,
        "client_id": job["client_id"],
    }


def produce(job: Job) -> Result:
    """Send every record, wait for every report."""
    tally = Tally()
    idempotent = job["acks"] == "all" and job.get("idempotent", True)
    # Version 2 of the library does not know the setting.
    more = {} if job.get("old") else {"enable_idempotence": idempotent}
    producer = KafkaProducer(**settings(job, acks=job["acks"], **more))
    futures = []
    for topic, partition, key, value, headers in messages(job):
        tally.add("sent", topic, partition)
        try:
            future = producer.send(topic, value, key=key, partition=partition, headers=headers)
        except KafkaError as error:
            tally.error(type(error).__name__)
            continue
        futures.append((future, topic, partition))
        if job.get("one_at_a_time"):
            producer.flush(10)
    producer.flush(30)
    for future, topic, partition in futures:
        try:
            future.get(10)
        except KafkaError as error:
            tally.error(type(error).__name__)
        else:
            tally.add("acknowledged", topic, partition)
    producer.close(10)
    return about(job) | {"acks": job["acks"]} | tally.result()


def knock(job: Job) -> Result:
    """Try to produce where the broker may not let this client in at all."""
    try:
        return produce(job)
    except KafkaError as error:
        return about(job) | {"errors": {type(error).__name__: 1}}


def consume(job: Job) -> Result:
    """Read a number of records from given partitions, then go on asking for a while."""
    tally = Tally()
    consumer = KafkaConsumer(
        **settings(job, group_id=None, enable_auto_commit=False, auto_offset_reset="none")
    )
    parts = [TopicPartition(topic, part) for topic, part in job["assign"]]
    consumer.assign(parts)
    _seek(consumer, parts, job.get("offset", "earliest"))
    end = time.monotonic() + 20
    while tally.total("consumed") < int(job["count"]) and time.monotonic() < end:
        if not _take(consumer, tally, 200, keep=bool(job.get("keep"))):
            break
    end = time.monotonic() + job.get("linger", 0)
    while time.monotonic() < end and _take(consumer, tally, 200):
        pass
    consumer.close()
    return about(job) | tally.result()


def _seek(consumer: Any, parts: list[Any], offset: str | int) -> None:
    if offset == "earliest":
        consumer.seek_to_beginning(*parts)
    elif offset == "latest":
        consumer.seek_to_end(*parts)
    else:
        for part in parts:
            consumer.seek(part, int(offset))


def _take(consumer: Any, tally: Tally, timeout_ms: int, *, keep: bool = False) -> bool:
    try:
        found = consumer.poll(timeout_ms=timeout_ms)
    except KafkaError as error:
        tally.error(type(error).__name__)
        return False
    for part, records in found.items():
        tally.add("consumed", part.topic, part.partition, len(records))
        for one in records if keep else ():
            place = (part.topic, part.partition, one.offset)
            tally.record(place, one.timestamp, (one.key, one.value), one.headers)
    return True


def group(job: Job) -> Result:
    """Two members of one group: the second joins, then leaves."""
    tally = Tally()
    assignments: list[dict[str, list[str]]] = []
    first = _member(job, "first")
    end = time.monotonic() + 30
    while tally.total("consumed") < int(job["count"]) and time.monotonic() < end:
        _take(first, tally, 200)
    first.commit()
    assignments.append({"first": held(first)})
    second = _member(job, "second")
    members = {"first": first, "second": second}
    _poll_until(
        members,
        tally,
        lambda: 0 < len(held(first)) < int(job["partitions"]) and bool(held(second)),
    )
    assignments.append({name: held(member) for name, member in members.items()})
    second.close()
    _poll_until({"first": first}, tally, lambda: len(held(first)) == int(job["partitions"]))
    assignments.append({"first": held(first)})
    first.commit()
    first.close()
    return about(job) | tally.result() | {"assignments": assignments}


def _member(job: Job, name: str) -> Any:
    consumer = KafkaConsumer(**(settings(job) | settings_of_member(job, name)))
    consumer.subscribe(job["topics"])
    return consumer


def _poll_until(members: dict[str, Any], tally: Tally, reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 40
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError("the group did not settle")
        for consumer in members.values():
            _take(consumer, tally, 100)


def administer(job: Job) -> Result:
    """A topic's life seen from an administrator: created, described, changed, deleted."""
    tally = Tally()
    admin = KafkaAdminClient(**settings(job))
    topic = job["topic"]
    wanted = {topic: {"num_partitions": 3, "replication_factor": 1}}
    admin.create_topics(wanted)
    try:
        admin.create_topics(wanted)
    except KafkaError as error:
        tally.error(type(error).__name__)
    admin.describe_topics([topic])
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=None)
    admin.describe_configs([resource])
    admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "7200000"})]
    )
    admin.list_groups()
    admin.describe_cluster()
    admin.delete_topics([topic])
    admin.close()
    return about(job) | tally.result()


if __name__ == "__main__":
    main(
        {
            "produce": produce,
            "knock": knock,
            "consume": consume,
            "group": group,
            "administer": administer,
        }
    )
