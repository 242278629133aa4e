"""Clients that behave badly (librdkafka, and kafka-python where the fault needs it)."""

import os
import signal
import subprocess
import time
from typing import Any

import kafka
from confluent_kafka import Consumer, Producer

from common import Job, Result, Tally, main
from confluent_worker import about, settings


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
    return {
        "library": "kafka-python",
        "version": kafka.__version__,
        "client_id": job["client_id"],
        "consumers": 2 * int(job["count"]),
        **tally.result(),
    }


def _fetcher(job: Job, name: str, parts: int) -> Any:
    config = {"client_id": f"{job['client_id']}-{name}", "bootstrap_servers": job["bootstrap"]}
    # Told, it does not ask.
    config["api_version"] = (3, 9)
    consumer = kafka.KafkaConsumer(**(config | job["config"]))
    of_job = [kafka.TopicPartition(job["topic"], part) for part in range(parts)]
    consumer.assign(of_job)
    for part in of_job:
        consumer.seek(part, 0)
    return consumer


def _fetch(consumers: list[Any], tally: Tally) -> None:
    for consumer in consumers:
        for part, records in consumer.poll(timeout_ms=20).items():
            tally.add("consumed", part.topic, part.partition, len(records))
    time.sleep(0.2)


if __name__ == "__main__":
    main(
        {
            "connect_often": connect_often,
            "knock_on": knock_on,
            "come_and_go": come_and_go,
            "stay": stay,
            "crowd": crowd,
        }
    )
