"""Clients that behave badly: librdkafka, kafka-python and aiokafka, bent where they have to be."""

import asyncio
import os
import signal
import subprocess
import time
from typing import Any

from aiokafka.cluster import ClusterMetadata
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, TopicPartition
from kafka.net.transport import KafkaTCPTransport

import aiokafka_worker
import kafka_python_worker
from common import Job, Result, Tally, main
from confluent_worker import about, settings

_SIZE_BYTES = 4


def connect_often(job: Job) -> Result:
    """A producer of its own for each record."""
    tally = Tally()
    for _ in range(int(job["count"])):
        producer = Producer(settings(job))
        producer.produce(job["topic"], b"x" * int(job["size"]), partition=0)
        tally.add("sent", job["topic"], 0)
        producer.flush(10)
    return about(job) | tally.result()


def knock_on(job: Job) -> Result:
    """Try to be let in, over and over, for some seconds."""
    failures: list[str] = []
    producer = Producer(settings(job, error_cb=lambda error: failures.append(error.name())))
    end = time.monotonic() + float(job["seconds"])
    while time.monotonic() < end:
        producer.poll(0.1)
    tally = Tally()
    for name in failures:
        tally.error(name)
    return about(job) | tally.result()


def come_and_go(job: Job) -> Result:
    """One member stays; another joins and leaves, over and over."""
    tally = Tally()
    steady = _member(job, "steady")
    _poll([steady], tally, float(job["alone"]))
    for _ in range(int(job["rounds"])):
        restless = _member(job, "restless")
        _poll([steady, restless], tally, float(job["together"]))
        restless.close()
        _poll([steady], tally, float(job["alone"]))
    steady.close()
    return about(job) | tally.result() | {"rounds": job["rounds"]}


def stay(job: Job) -> Result:
    """A member that stays for some seconds; it may freeze (SIGSTOP) or subscribe anew meanwhile."""
    tally = Tally()
    member = _member(job, job.get("member", "steady"))
    _poll([member], tally, float(job["before"]))
    frozen_s = float(job.get("frozen", 0))
    if frozen_s:
        own = os.getpid()
        with subprocess.Popen(["sh", "-c", f"sleep {frozen_s}; kill -CONT {own}"]):
            os.kill(own, signal.SIGSTOP)
    if "then" in job:
        member.subscribe(job["then"])
    _poll([member], tally, float(job["after"]))
    member.close()
    return about(job) | tally.result() | {"frozen_s": frozen_s}


def _member(job: Job, name: str) -> Consumer:
    config = {
        "group.id": job["group"],
        "client.id": f"{job['client_id']}-{name}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 900,
    }
    # What a job sets wins.
    consumer = Consumer(settings(job) | config | job.get("config", {}))
    # Topics are known by name before their ids are told to the member.
    consumer.list_topics(job["topics"][0], 10)
    consumer.subscribe(job["topics"])
    return consumer


def _poll(members: list[Consumer], tally: Tally, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for member in members:
            message = member.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                tally.error(error.name())
                continue
            tally.add("consumed", message.topic() or "", message.partition() or 0)


def crowd(job: Job) -> Result:
    """Many consumers with fetch sessions; after a while as many, whose sessions are larger."""
    tally = Tally()
    small = [_fetcher(job, f"small-{number}", 1) for number in range(int(job["count"]))]
    end = time.monotonic() + float(job["age"])
    while time.monotonic() < end:
        _fetch(small, tally)
    large = [_fetcher(job, f"large-{number}", 2) for number in range(int(job["count"]))]
    end = time.monotonic() + float(job["after"])
    while time.monotonic() < end:
        _fetch([*large, *small], tally)
    for one in (*small, *large):
        one.close()
    about_all = {"consumers": 2 * int(job["count"])}
    return kafka_python_worker.about(job) | about_all | tally.result()


def _fetcher(job: Job, name: str, parts: int) -> Any:
    config = {"client_id": f"{job['client_id']}-{name}", "bootstrap_servers": job["bootstrap"]}
    # Told, it does not ask.
    config["api_version"] = (3, 9)
    consumer = KafkaConsumer(**(config | job["config"]))
    of_job = [TopicPartition(job["topic"], part) for part in range(parts)]
    consumer.assign(of_job)
    for part in of_job:
        consumer.seek(part, 0)
    return consumer


def _fetch(consumers: list[Any], tally: Tally) -> None:
    for consumer in consumers:
        for part, records in consumer.poll(timeout_ms=20).items():
            tally.add("consumed", part.topic, part.partition, len(records))
    time.sleep(0.2)


class _TwoPieces:
    """A socket that sends the size of a request apart from the request."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def send(self, data: bytes) -> int:
        """Send in two pieces what is a whole request here."""
        sent: int = self._real.send(data[:_SIZE_BYTES])
        return sent + int(self._real.send(data[_SIZE_BYTES:]))


def produce_in_two_pieces(job: Job) -> Result:
    """Produce with Nagle's algorithm at work (no TCP_NODELAY) and two writes a request."""
    made = KafkaTCPTransport.__init__

    def make(self: Any, net: Any, sock: Any, *words: Any, **more: Any) -> None:
        made(self, net, _TwoPieces(sock), *words, **more)

    KafkaTCPTransport.__init__ = make
    job.setdefault("config", {})["socket_options"] = []
    return kafka_python_worker.produce(job)


def produce_to_old_leader(job: Job) -> Result:
    """Produce, whatever metadata say, to the broker that led a partition at first."""
    leader_of = ClusterMetadata.leader_for_partition
    first: dict[Any, Any] = {}

    def leader(self: Any, partition: Any) -> Any:
        now = leader_of(self, partition)
        return first.setdefault(partition, now) if now not in (None, -1) else now

    ClusterMetadata.leader_for_partition = leader
    return asyncio.run(aiokafka_worker.produce(job))


def freeze(job: Job) -> Result:
    """Be a member of a group that stands still now and then, as one that collects garbage."""
    tally = Tally()
    consumer = KafkaConsumer(
        **kafka_python_worker.settings(
            job,
            group_id=job["group"],
            auto_offset_reset="earliest",
            session_timeout_ms=job["session_timeout_ms"],
            heartbeat_interval_ms=job["heartbeat_interval_ms"],
        )
    )
    consumer.subscribe(job["topics"])
    _read(consumer, tally, 5.0)
    for seconds in job["freezes"]:
        _stand_still(seconds)
        _read(consumer, tally, 3.0)
    consumer.close()
    return kafka_python_worker.about(job) | tally.result() | {"freezes_s": job["freezes"]}


def _stand_still(seconds: float) -> None:
    """Stop this process; a child of it lets it go on."""
    own = os.getpid()
    if os.fork() == 0:
        time.sleep(0.2)
        os.kill(own, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(own, signal.SIGCONT)
        os._exit(0)
    time.sleep(0.4)
    os.wait()


def fall_behind(job: Job) -> Result:
    """Be a member of a group that works slower than records come."""
    tally = Tally()
    consumer = KafkaConsumer(
        **kafka_python_worker.settings(
            job,
            group_id=job["group"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=job["bytes_at_once"],
            max_poll_records=100_000,
        )
    )
    consumer.subscribe(job["topics"])
    end = time.monotonic() + job["seconds"]
    while time.monotonic() < end:
        _read(consumer, tally, 0.0)
        consumer.commit()
        time.sleep(job["work_s"])
    consumer.close()
    return kafka_python_worker.about(job) | tally.result()


def _read(consumer: Any, tally: Tally, seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        for part, records in consumer.poll(timeout_ms=200).items():
            tally.add("consumed", part.topic, part.partition, len(records))
        if time.monotonic() >= end:
            return


if __name__ == "__main__":
    main(
        {
            "connect_often": connect_often,
            "knock_on": knock_on,
            "come_and_go": come_and_go,
            "stay": stay,
            "crowd": crowd,
            "produce_in_two_pieces": produce_in_two_pieces,
            "produce_to_old_leader": produce_to_old_leader,
            "freeze": freeze,
            "fall_behind": fall_behind,
            "knock": kafka_python_worker.knock,
        }
    )
