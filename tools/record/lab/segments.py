"""The batches in the broker's log, as Kafka's own DumpLogSegments prints them."""

import re
from typing import Any

from lab.broker import Broker
from lab.processes import run

DUMP = "org.apache.kafka.tools.DumpLogSegments"
BATCH = re.compile(
    r"baseOffset: (?P<baseOffset>\d+) lastOffset: (?P<lastOffset>\d+) count: (?P<count>\d+) .*?"
    r"isControl: (?P<control>\w+) .*?"
    r"size: (?P<size>\d+) magic: (?P<magic>\d+) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+)"
)


def dump(broker: Broker) -> dict[str, list[dict[str, Any]]]:
    """``{topic-partition: batches in order of offset}`` of all topics that are not internal."""
    files = sorted(
        file
        for file in broker.data.glob("*/*.log")
        if not file.parent.name.startswith("__")
        and not file.parent.name.endswith("-delete")
        and file.stat().st_size
    )
    if not files:
        return {}
    names = ",".join(str(file) for file in files)
    told = run(broker.tools.java(DUMP, "--files", names), timeout=120)
    return batches(told.stdout)


def batches(text: str) -> dict[str, list[dict[str, Any]]]:
    """The tool's text, read."""
    found: dict[str, list[dict[str, Any]]] = {}
    current: list[dict[str, Any]] = []
    for line in text.splitlines():
        if line.startswith("Dumping "):
            name = line.split()[1].split("/")[-2]
            current = found.setdefault(name, [])
        match = BATCH.match(line)
        if match is not None:
            words: dict[str, Any] = match.groupdict()
            control, codec = words.pop("control") == "true", words.pop("codec")
            numbers = {key: int(value) for key, value in words.items()}
            current.append(numbers | {"codec": codec, "control": control})
    return found
