"""What the client workers share.

A worker is a program of its own: it reads one job (a JSON object) from standard input, does it with
one client library, and writes one JSON object of what that library counted to standard output.
"""

import base64
import json
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Job = dict[str, Any]
Result = dict[str, Any]
Headers = list[tuple[str, bytes | None]]


class Message(NamedTuple):
    """A record to send; a key, a value or a header's value may be null."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Tally:
    """Counts by topic and partition, and by the name of an error."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[tuple[str, int]]] = {}
        self._errors: Counter[str] = Counter()
        self._records: list[Result] = []

    def add(self, what: str, topic: str, partition: int, number: int = 1) -> None:
        """Count something of a partition: sent, acknowledged, consumed."""
        self._counts.setdefault(what, Counter())[topic, partition] += number

    def error(self, name: str) -> None:
        """Count an error that the library reported."""
        self._errors[name] += 1

    def record(
        self,
        place: tuple[str, int, int],
        timestamp_ms: int,
        content: tuple[bytes | None, bytes | None],
        headers: Headers,
    ) -> None:
        """Keep a record that was read: (topic, partition, offset), time, (key, value), headers."""
        topic, partition, offset = place
        self._records.append(
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "timestamp": timestamp_ms,
                "key": packed(content[0]),
                "value": packed(content[1]),
                "headers": [[name, packed(value)] for name, value in headers],
            }
        )

    def total(self, what: str) -> int:
        """All of one kind."""
        return sum(self._counts.get(what, Counter()).values())

    def result(self) -> Result:
        """``{what: {topic: {partition: count}}, "errors": {name: count}}``."""
        found: Result = {}
        for what, counts in self._counts.items():
            topics: dict[str, dict[str, int]] = {}
            for (topic, partition), number in sorted(counts.items()):
                topics.setdefault(topic, {})[str(partition)] = number
            found[what] = topics
        if self._errors:
            found["errors"] = dict(sorted(self._errors.items()))
        if self._records:
            found["records"] = self._records
        return found


def packed(content: bytes | None) -> str | None:
    """Bytes as base64, for JSON; null stays null."""
    return None if content is None else base64.b64encode(content).decode()


def unpacked(text: str | None) -> bytes | None:
    """The other way round."""
    return None if text is None else base64.b64decode(text)


def messages(job: Job) -> Iterator[Message]:
    """Every record that a produce job asks for: given one by one, or as a count and a size."""
    for send in job["sends"]:
        topic, partition = send["topic"], int(send["partition"])
        for given in send.get("records", ()):
            headers: Headers = [(name, unpacked(value)) for name, value in given["headers"]]
            key, value = unpacked(given["key"]), unpacked(given["value"])
            yield Message(topic, partition, key, value, headers)
        size = int(send.get("size", 0))
        for number in range(int(send.get("count", 0))):
            label = f"{topic}/{partition}/{number} "
            text = (label * (size // len(label) + 1))[:size]
            yield Message(topic, partition, f"key-{number}".encode(), text.encode(), [])
            time.sleep(float(send.get("pause", 0)))


def tls_context(wanted: Job) -> ssl.SSLContext:
    """Return a context with the settings that a job has for TLS.

    ``ssl.create_default_context`` writes a key log of its own accord where SSLKEYLOGFILE is set.
    """
    context = ssl.create_default_context(cafile=wanted["ca"])
    if "keylog" in wanted:
        context.keylog_filename = wanted["keylog"]
    if "keystore" in wanted:
        context.load_cert_chain(wanted["keystore"])
    if "ciphers" in wanted:
        context.set_ciphers(wanted["ciphers"])
    if "version" in wanted:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[
            wanted["version"].replace(".", "_")
        ]
    return context


def settings_of(job: Job, **more: Any) -> dict[str, Any]:
    """Settings of the clients in Python, whose names are the same: the job's own win."""
    config = {
        "bootstrap_servers": job["bootstrap"],
        "client_id": job["client_id"],
        **more,
        **job.get("config", {}),
    }
    if "tls" in job:
        config["ssl_context"] = tls_context(job["tls"])
    return config


def settings_of_member(job: Job, name: str) -> dict[str, Any]:
    """Settings of a member of a group, which these clients share too."""
    return {
        "group_id": job["group"],
        "client_id": f"{job['client_id']}-{name}",
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 500,
    }


def held(consumer: Any) -> list[str]:
    """Return the partitions that a consumer has."""
    return sorted(f"{part.topic}/{part.partition}" for part in consumer.assignment())


def main(operations: dict[str, Callable[[Job], Result]]) -> None:
    """Do the one job of this process."""
    job: Job = json.load(sys.stdin)
    json.dump(operations[job["op"]](job), sys.stdout)
    sys.stdout.write("\n")
