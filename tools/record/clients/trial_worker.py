"""Clients of trials: `trial_worker.py JOB.json` does one job until it is done or ended.

What they get is not counted: of a trial is told what the wire shows.
"""

import asyncio
import contextlib
import itertools
import json
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.record.default_records import DefaultRecordBatchBuilder

Job = dict[str, Any]


def _seconds(job: Job) -> float:
    return float(job.get("seconds", 3600))


def _native(job: Job, **more: Any) -> dict[str, Any]:
    who = {"bootstrap.servers": job["bootstrap"], "client.id": job["client_id"]}
    return {**who, **more, **job.get("config", {})}


def _pythons(job: Job, **more: Any) -> dict[str, Any]:
    who = {"bootstrap_servers": job["bootstrap"].split(","), "client_id": job["client_id"]}
    config = {**who, **more, **job.get("config", {})}
    if "api_version" in config:
        config["api_version"] = tuple(config["api_version"])
    return config


def _values(job: Job) -> Any:
    """Values of records, each at its time, until the time is over."""
    end = time.monotonic() + _seconds(job)
    for number in itertools.count():
        if time.monotonic() > end:
            return
        text = f"{job['client_id']} {number} "
        size = int(job.get("size", 200))
        yield number, (text * (size // len(text) + 1))[:size].encode()
        time.sleep(1 / float(job.get("per_s", 5)))


def produce(job: Job) -> None:
    """librdkafka: records at a rate."""
    producer = Producer(_native(job, acks="all"))
    for number, value in _values(job):
        key = None if job.get("keyless") else f"{number}".encode()
        with contextlib.suppress(BufferError):
            producer.produce(job["topic"], value, key)
        producer.poll(0)
    producer.flush(5)


def produce_twice(job: Job) -> None:
    """librdkafka: some records, long silence, some more."""
    producer = Producer(_native(job, acks="all"))
    for silence_s in (float(job["silence_s"]), 2.0):
        for number in range(3):
            producer.produce(job["topic"], b"x" * 100, f"{number}".encode())
        producer.flush(10)
        time.sleep(silence_s)


def knock(job: Job) -> None:
    """kafka-python: try to be let in."""
    end = time.monotonic() + _seconds(job)
    while time.monotonic() < end:
        with contextlib.suppress(KafkaError):
            KafkaProducer(**_pythons(job)).close(1)
        time.sleep(1)


def consume(job: Job) -> None:
    """librdkafka: a member of a group."""
    consumer = Consumer(_native(job, **{"group.id": job["group"], "auto.offset.reset": "latest"}))
    consumer.subscribe([job["topic"]])
    end = time.monotonic() + _seconds(job)
    while time.monotonic() < end:
        consumer.poll(0.5)
    consumer.close()


def produce_python(job: Job) -> None:
    """kafka-python: records at a rate."""
    producer = KafkaProducer(**_pythons(job, acks="all"))
    for number, value in _values(job):
        with contextlib.suppress(KafkaError):
            key = None if job.get("keyless") else f"{number}".encode()
            producer.send(job["topic"], value, key=key)
    producer.close(5)


def consume_python(job: Job) -> None:
    """kafka-python: a member of a group, perhaps one that works slowly."""
    more = {"group_id": job["group"], "auto_offset_reset": job.get("reset", "latest")}
    consumer = KafkaConsumer(job["topic"], **_pythons(job, **more))
    end = time.monotonic() + _seconds(job)
    while time.monotonic() < end:
        with contextlib.suppress(KafkaError):
            if consumer.poll(timeout_ms=500, max_records=job.get("at_once")):
                time.sleep(float(job.get("work_s", 0)))
    consumer.close()


def seek_beyond(job: Job) -> None:
    """kafka-python: fetch from where nothing is, again and again, in spite of errors."""
    consumer = KafkaConsumer(**_pythons(job, group_id=None, auto_offset_reset="latest"))
    part = TopicPartition(job["topic"], 0)
    consumer.assign([part])
    end = time.monotonic() + _seconds(job)
    while time.monotonic() < end:
        consumer.seek(part, 5_000_000)
        with contextlib.suppress(KafkaError):
            consumer.poll(timeout_ms=500)
        time.sleep(0.5)
    consumer.close()


def fence(job: Job) -> None:
    """librdkafka: two producers with one transactional id, in turn."""
    ids = {"transactional.id": job["transactional_id"]}
    end = time.monotonic() + _seconds(job)
    old = Producer(_native(job, **ids, **{"client.id": f"{job['client_id']}-0"}))
    old.init_transactions(20)
    for number in itertools.count(1):
        if time.monotonic() > end:
            return
        old.begin_transaction()
        old.produce(job["topic"], b"first")
        old.flush(5)
        new = Producer(_native(job, **ids, **{"client.id": f"{job['client_id']}-{number % 2}"}))
        new.init_transactions(20)
        old.produce(job["topic"], b"late")
        with contextlib.suppress(KafkaException):
            old.commit_transaction(5)
        old = new
        time.sleep(1)


async def _come_and_go(job: Job) -> None:
    end = time.monotonic() + _seconds(job)
    while time.monotonic() < end:
        member = aiokafka.AIOKafkaConsumer(
            job["topic"],
            bootstrap_servers=job["bootstrap"],
            client_id=job["client_id"],
            group_id=job["group"],
        )
        await member.start()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(member.getone(), float(job["stay_s"]))
        await member.stop()
        await asyncio.sleep(float(job["away_s"]))


def come_and_go(job: Job) -> None:
    """aiokafka: join a group and leave it, again and again."""
    asyncio.run(_come_and_go(job))


def ask_often(job: Job) -> None:
    """kafka-python: a new client for each question."""
    end = time.monotonic() + _seconds(job)
    while time.monotonic() < end:
        admin = KafkaAdminClient(**_pythons(job))
        admin.list_topics()
        admin.close()
        time.sleep(0.2)


def _say(job: Job, messages: Callable[[int], list[bytes]]) -> None:
    """Connect again and again; send messages, each after an answer to the one before."""
    host, port = job["bootstrap"].split(",")[0].split(":")
    end = time.monotonic() + _seconds(job)
    for number in itertools.count(1):
        if time.monotonic() > end:
            return
        with (
            contextlib.suppress(OSError),
            socket.create_connection((host, int(port)), 5) as connection,
        ):
            for message in messages(number):
                connection.sendall(message)
                connection.recv(4096)
        time.sleep(float(job.get("pause_s", 1)))


def _text(text: str) -> bytes:
    return len(text).to_bytes(2) + text.encode()


def _sized(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


def _request(job: Job, number: int, api: tuple[int, int], body: bytes) -> bytes:
    """A request of an API and version whose header has no tagged fields."""
    key, version = api
    head = key.to_bytes(2) + version.to_bytes(2) + number.to_bytes(4) + _text(job["client_id"])
    return _sized(head + body)


def speak_http(job: Job) -> None:
    """A web client that was given a broker's address."""
    host = job["bootstrap"].split(",")[0]
    content = job.get("content", "")
    head = f"{job.get('method', 'GET')} /health HTTP/1.1\r\nHost: {host}\r\n"
    if content:
        head += f"Content-Length: {len(content)}\r\n"
    _say(job, lambda _: [f"{head}\r\n{content}".encode()])


def answer_http(job: Job) -> None:
    """A web server, which refuses what it does not understand."""
    text = (
        b"HTTP/1.1 400 Bad Request\r\nServer: web\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )

    def refuse(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(text)

    _serve(job, refuse)


def close_at_once(job: Job) -> None:
    """A server that closes each connection when it has read something, by a reset if so told."""

    def close(connection: socket.socket) -> None:
        connection.recv(4096)
        if job.get("is_reset"):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    _serve(job, close)


def _serve(job: Job, answer: Callable[[socket.socket], object]) -> None:
    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            answer(connection)

    with socket.create_server((job["host"], int(job["port"]))) as server:
        while True:
            threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()


def lose(job: Job) -> None:
    """A proxy before a broker, which loses each so many-th Produce request."""
    produced = itertools.count(1)

    def bring_back(broker: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while answers := broker.recv(65536):
                client.sendall(answers)
            client.shutdown(socket.SHUT_RDWR)

    def forward(client: socket.socket) -> None:
        with (
            socket.create_connection(tuple(job["to"])) as broker,
            client.makefile("rb") as requests,
        ):
            threading.Thread(target=bring_back, args=(broker, client), daemon=True).start()
            while size := requests.read(4):
                request = requests.read(int.from_bytes(size))
                if request[:2] != bytes(2) or next(produced) % int(job["every"]):
                    broker.sendall(size + request)
            broker.shutdown(socket.SHUT_RDWR)

    _serve(job, forward)


def answer_tls(job: Job) -> None:
    """The end of TLS in front of a broker."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion[job["version"]]
    context.load_cert_chain(job["keystore"])

    def shake_hands(connection: socket.socket) -> None:
        connection.settimeout(5)
        with context.wrap_socket(connection, server_side=True) as inside:
            inside.recv(4096)

    _serve(job, shake_hands)


def fetch_old(job: Job) -> None:
    """A client of 2016: Fetch v2 without a look at what the broker speaks."""
    body = b"\xff\xff\xff\xff" + (500).to_bytes(4) + (1).to_bytes(4) + (1).to_bytes(4)
    body += _text(job["topic"]) + (1).to_bytes(4) + bytes(12) + (1 << 20).to_bytes(4)
    _say(job, lambda number: [_request(job, number, (1, 2), body)])


def corrupt(job: Job) -> None:
    """A client made by hand, which does not compute the CRC of its batches (Produce v7)."""
    value = b"by hand"
    record = bytes((0, 0, 0, 1, 2 * len(value))) + value + b"\0"
    records = bytes((2 * len(record),)) + record
    inside = bytes(2) + bytes(4) + 2 * time.time_ns().to_bytes(8) + b"\xff" * 14
    inside += (1).to_bytes(4) + records
    batch = b"\xff\xff\xff\xff\x02" + b"\x2b\xad\xba\xad" + inside
    _say(job, lambda number: [_produce(job, number, bytes(8) + _sized(batch))])


def skip(job: Job) -> None:
    """A client made by hand that leaves sequence numbers out before each so many-th batch."""
    host, port = job["bootstrap"].split(",")[0].split(":")
    end = time.monotonic() + _seconds(job)
    with socket.create_connection((host, int(port)), 5) as connection:
        error = -1
        while error:  # a new cluster has no block of producer ids yet
            time.sleep(0.2)
            connection.sendall(_request(job, 0, (22, 0), b"\xff\xff" + (60_000).to_bytes(4)))
            # After size, correlation id and throttle time.
            error, producer_id, epoch = struct.unpack_from(">hqh", connection.recv(4096), 12)
        sequence = 0
        for number in itertools.count(1):
            if time.monotonic() > end:
                return
            is_wrong = number % int(job["every"]) == 0
            first = sequence + (int(job["hole"]) if is_wrong else 0)
            batch = DefaultRecordBatchBuilder(2, 0, False, producer_id, epoch, first, 1 << 20)
            for offset in range(number % 3 + 1):
                batch.append(offset, None, None, b"by hand" * number, [])
                sequence += not is_wrong
            connection.sendall(_produce(job, number, bytes(batch.build())))
            connection.recv(4096)
            time.sleep(0.2)


def _produce(job: Job, number: int, batches: bytes) -> bytes:
    """Produce v7 to partition 0, acks=1."""
    body = b"\xff\xff" + (1).to_bytes(2) + (5000).to_bytes(4)
    body += (1).to_bytes(4) + _text(job["topic"]) + (1).to_bytes(4) + bytes(4) + _sized(batches)
    return _request(job, number, (0, 7), body)


def corrupt_python(job: Job) -> None:
    """kafka-python on a machine whose memory loses bits now and then."""
    build, count = DefaultRecordBatchBuilder.build, itertools.count(1)

    def build_wrong(self: DefaultRecordBatchBuilder) -> bytearray:
        batch = bytearray(build(self))
        if next(count) % 3 == 0:
            batch[-5] ^= 0x10
        return batch

    DefaultRecordBatchBuilder.build = build_wrong
    produce_python(job)


def speak_kerberos(job: Job) -> None:
    """A client of 0.9 with GSSAPI: its token is the first that it sends, or it asks first."""
    oid = bytes.fromhex("06092a864886f71201020201006e82021e3082021aa003020105a10302010e")
    token = b"\x60\x82\x02\x2f" + oid + b"\x5a" * (559 - len(oid))
    messages = [_sized(token)]
    if job.get("asks_first"):
        messages = [_request(job, 1, (17, 1), _text("GSSAPI")), *messages]
    _say(job, lambda _: messages)


def background(job: Job) -> None:
    """What goes on all the time: two libraries produce and consume a little."""
    for number, (write, read) in enumerate(((produce, consume), (produce_python, consume_python))):
        for other, do in enumerate((write, read)):
            name = f"{job['client_id']}-{number}{'pc'[other]}"
            one = {**job, "client_id": name, "group": f"{job['client_id']}-{number}"}
            threading.Thread(target=do, args=(one,), daemon=True).start()
    time.sleep(_seconds(job))


OPERATIONS: dict[str, Callable[[Job], None]] = {
    each.__name__: each
    for each in (
        produce,
        produce_twice,
        knock,
        consume,
        produce_python,
        consume_python,
        seek_beyond,
        fence,
        come_and_go,
        ask_often,
        speak_http,
        answer_http,
        close_at_once,
        answer_tls,
        fetch_old,
        lose,
        corrupt,
        skip,
        corrupt_python,
        speak_kerberos,
        background,
    )
}

if __name__ == "__main__":
    told: Job = json.loads(Path(sys.argv[1]).read_text())
    OPERATIONS[told["op"]](told)
