"""What the client workers share.

A worker is a program of its own: it reads one job (a JSON object) from standard input, does it with
one client library, and writes one JSON object of what that library counted to standard output.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

Job = dict[str, Any]
Result = dict[str, Any]


class Tally:
    """Counts by topic and partition, and by the name of an error."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[tuple[str, int]]] = {}
        self._errors: Counter[str] = Counter()

    def add(self, what: str, topic: str, partition: int, number: int = 1) -> None:
        """Count something of a partition: sent, acknowledged, consumed."""
        self._counts.setdefault(what, Counter())[topic, partition] += number

    def error(self, name: str) -> None:
        """Count an error that the library reported."""
        self._errors[name] += 1

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
        return found


def messages(job: Job) -> Iterator[tuple[str, int, bytes, bytes]]:
    """Topic, partition, key and value of every record that a produce job asks for."""
    for send in job["sends"]:
        topic, partition, size = send["topic"], int(send["partition"]), int(send["size"])
        for number in range(int(send["count"])):
            label = f"{topic}/{partition}/{number} "
            value = (label * (size // len(label) + 1))[:size]
            yield topic, partition, f"key-{number}".encode(), value.encode()
            time.sleep(float(send.get("pause", 0)))


def main(operations: dict[str, Callable[[Job], Result]]) -> None:
    """Do the one job of this process."""
    job: Job = json.load(sys.stdin)
    json.dump(operations[job["op"]](job), sys.stdout)
    sys.stdout.write("\n")
