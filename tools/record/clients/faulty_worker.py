"""Jobs of clients with something wrong with them: one library's, bent where it has to be."""

import asyncio
import os
import signal
import time
from typing import Any

import kafka
from aiokafka.cluster import ClusterMetadata
from kafka import KafkaConsumer
from kafka.net.transport import KafkaTCPTransport

import aiokafka_worker
import kafka_python_worker
from common import Job, Result, Tally, main

_SIZE_BYTES = 4


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
    _poll(consumer, tally, 5.0)
    for seconds in job["freezes"]:
        _stand_still(seconds)
        _poll(consumer, tally, 3.0)
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
        _poll(consumer, tally, 0.0)
        consumer.commit()
        time.sleep(job["work_s"])
    consumer.close()
    return kafka_python_worker.about(job) | tally.result()


def _poll(consumer: Any, tally: Tally, seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        for part, records in consumer.poll(timeout_ms=200).items():
            tally.add("consumed", part.topic, part.partition, len(records))
        if time.monotonic() >= end:
            return


def knock(job: Job) -> Result:
    """Produce, or say why not."""
    try:
        return kafka_python_worker.produce(job)
    except kafka.errors.KafkaError as error:
        return kafka_python_worker.about(job) | {"errors": {type(error).__name__: 1}}


if __name__ == "__main__":
    main(
        {
            "produce_in_two_pieces": produce_in_two_pieces,
            "produce_to_old_leader": produce_to_old_leader,
            "freeze": freeze,
            "fall_behind": fall_behind,
            "knock": knock,
        }
    )
