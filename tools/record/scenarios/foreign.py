"""Clients of other languages: kafkajs (JavaScript) and franz-go (Go)."""

from collections.abc import Callable
from typing import Any

from lab import cache
from lab.scenario import Lab, Scenario
from scenarios.codecs import shapes

# The second partition is written with acks 0.
ACKS: tuple[str | int, ...] = ("all", 0)
WORKERS: dict[str, Callable[[], list[str]]] = {"kafkajs": cache.kafkajs, "franz-go": cache.franz}

# Clients that cannot send a header of null.
NULL_HEADERS_REFUSED = frozenset({"kafkajs"})


def setup(lab: Lab) -> None:
    """A topic for each client; what is missing on this machine is told before the recording."""
    for program in WORKERS.values():
        program()
    lab.create_topics({f"foreign-{name}": {"partitions": len(ACKS)} for name in WORKERS})


def run(lab: Lab) -> None:
    """Each client writes with acks all and 0, then reads its topic back as a group of one."""
    for name, program in WORKERS.items():
        command, topic = program(), f"foreign-{name}"
        for part, acks in enumerate(ACKS):
            lab.foreign_worker(
                command,
                "produce",
                client_id=f"{name}-acks-{acks}",
                acks=acks,
                codec="gzip",
                sends=[{"topic": topic, "partition": part, "records": _records(name, acks)}],
            )
        lab.foreign_worker(
            command,
            "group",
            client_id=f"{name}-reader",
            group=f"{topic}-group",
            topics=[topic],
            count=sum(len(_records(name, acks)) for acks in ACKS),
        )


def _records(name: str, acks: str | int) -> list[dict[str, Any]]:
    # Fewer with acks 0: what is told no offset cannot be found by it.
    found = shapes(name)[: None if acks == "all" else 9]
    if name in NULL_HEADERS_REFUSED:
        for one in found:
            one["headers"] = [item for item in one["headers"] if item[1] is not None]
    return found


SCENARIO = Scenario(
    name="foreign",
    summary="kafkajs and franz-go, each writing with acks all and 0 records of every shape and "
    "reading them back as a consumer group.",
    setup=setup,
    run=run,
)
