"""Jobs for aiokafka."""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from common import Job, Result, Tally, held, main, messages, settings_of, settings_of_member


def settings(job: Job, **more: Any) -> dict[str, Any]:
    """Native settings: the job's own win. A file of trusted certificates becomes a context."""
    config = settings_of(job, **more)
    trusted = config.pop("cafile", None)
    if trusted is not None:
        config["ssl_context"] = ssl.create_default_context(cafile=trusted)
    return config


def about(job: Job) -> Result:
    """Who this client is."""
    return {
        "library": "aiokafka",
        "version": aiokafka.__version__,
        "client_id": job["client_id"],
    }


async def produce(job: Job) -> Result:
    """Send every record, wait for every report."""
    tally = Tally()
    async with AIOKafkaProducer(**settings(job, acks=job["acks"])) as producer:
        reports = []
        for topic, partition, key, value, headers in messages(job):
            tally.add("sent", topic, partition)
            try:
                report = await producer.send(
                    topic, value, key=key, partition=partition, headers=headers
                )
            except KafkaError as error:
                tally.error(type(error).__name__)
                continue
            reports.append((report, topic, partition))
            if job.get("one_at_a_time"):
                await producer.flush()
        await producer.flush()
        for report, topic, partition in reports:
            try:
                await asyncio.wait_for(report, 10)
            except KafkaError as error:
                tally.error(type(error).__name__)
            else:
                tally.add("acknowledged", topic, partition)
    return about(job) | {"acks": job["acks"]} | tally.result()


async def knock(job: Job) -> Result:
    """Try to produce where the broker may not let this client in at all."""
    try:
        return await produce(job)
    except KafkaError as error:
        return about(job) | {"errors": {type(error).__name__: 1}}


async def consume(job: Job) -> Result:
    """Read a number of records from given partitions, then go on asking for a while."""
    tally = Tally()
    config = settings(job, group_id=None, enable_auto_commit=False, auto_offset_reset="none")
    consumer = AIOKafkaConsumer(**config)
    await consumer.start()
    parts = [TopicPartition(topic, part) for topic, part in job["assign"]]
    consumer.assign(parts)
    offset = job.get("offset", "earliest")
    if offset == "earliest":
        await consumer.seek_to_beginning(*parts)
    elif offset == "latest":
        await consumer.seek_to_end(*parts)
    else:
        for part in parts:
            consumer.seek(part, int(offset))
    end = time.monotonic() + 20
    while tally.total("consumed") < int(job["count"]) and time.monotonic() < end:
        if not await _take(consumer, tally, keep=bool(job.get("keep"))):
            break
    end = time.monotonic() + job.get("linger", 0)
    while time.monotonic() < end and await _take(consumer, tally):
        pass
    await consumer.stop()
    return about(job) | tally.result()


async def _take(consumer: Any, tally: Tally, *, keep: bool = False) -> bool:
    try:
        found = await consumer.getmany(timeout_ms=200)
    except KafkaError as error:
        tally.error(type(error).__name__)
        return False
    for part, records in found.items():
        tally.add("consumed", part.topic, part.partition, len(records))
        for one in records if keep else ():
            place = (part.topic, part.partition, one.offset)
            tally.record(place, one.timestamp, (one.key, one.value), list(one.headers))
    return True


async def group(job: Job) -> Result:
    """Two members of one group: the second joins, then leaves."""
    tally = Tally()
    assignments: list[dict[str, list[str]]] = []
    first = await _member(job, "first")
    end = time.monotonic() + 30
    while tally.total("consumed") < int(job["count"]) and time.monotonic() < end:
        await _take(first, tally)
    await first.commit()
    assignments.append({"first": held(first)})
    second = await _member(job, "second")
    members = {"first": first, "second": second}
    await _poll_until(
        members,
        tally,
        lambda: 0 < len(held(first)) < int(job["partitions"]) and bool(held(second)),
    )
    assignments.append({name: held(member) for name, member in members.items()})
    await second.stop()
    everything = int(job["partitions"])
    await _poll_until({"first": first}, tally, lambda: len(held(first)) == everything)
    assignments.append({"first": held(first)})
    await first.commit()
    await first.stop()
    return about(job) | tally.result() | {"assignments": assignments}


async def _member(job: Job, name: str) -> Any:
    consumer = AIOKafkaConsumer(*job["topics"], **(settings(job) | settings_of_member(job, name)))
    await consumer.start()
    return consumer


async def _poll_until(members: dict[str, Any], tally: Tally, reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 40
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError("the group did not settle")
        for consumer in members.values():
            await _take(consumer, tally)


if __name__ == "__main__":
    main(
        {
            "produce": lambda job: asyncio.run(produce(job)),
            "knock": lambda job: asyncio.run(knock(job)),
            "consume": lambda job: asyncio.run(consume(job)),
            "group": lambda job: asyncio.run(group(job)),
        }
    )
