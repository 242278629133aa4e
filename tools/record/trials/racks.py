"""Consumers of a cluster in three racks (`lab/trio.py`): near, far, and without a rack."""

import time
from collections.abc import Callable

from lab.scenario import CONSUMER, PERFORMANCE, TOPICS
from lab.trial import Expected, Stage, Trial
from lab.trio import RACKS

SECONDS, PER_S = 7, 3


def _topics(**leaders: int) -> Callable[[Stage], None]:
    """Return what makes topics of one partition on all nodes, and says which of them leads."""

    def make(stage: Stage) -> None:
        for name, leader in leaders.items():
            nodes = [leader, *(node for node in (1, 2, 3) if node != leader)]
            words = ["--create", "--if-not-exists", "--topic", name]
            stage.tool(TOPICS, *words, "--replica-assignment", ":".join(map(str, nodes)))

    return make


def _consumers(*consumers: tuple[str, str, str | None]) -> Callable[[Stage], None]:
    """Return what has consumers, each with a client id, a topic and a rack, read for a while."""

    def play(stage: Stage) -> None:
        producers = []
        for name, topic, rack in consumers:
            words = ["--bootstrap-server", stage.bootstrap, "--topic", topic, "--group", name]
            # On a busy machine a consumer may join when most has been written.
            words += ["--from-beginning", "--command-property", f"client.id={name}"]
            if rack is not None:
                words += ["--command-property", f"client.rack={rack}"]
            stage.java(CONSUMER, *words)
            words = ["--topic", topic, "--num-records", str(SECONDS * PER_S)]
            words += ["--record-size", "400", "--throughput", str(PER_S), "--producer-props"]
            producers.append(
                stage.java(PERFORMANCE, *words, f"bootstrap.servers={stage.bootstrap}", "acks=1")
            )
        with stage.fault():
            for producer in producers:
                stage.finish(producer)
        time.sleep(2)

    return play


NEAR = ("near-reader", "near", RACKS[0])
IN_RACKS = (
    Trial(
        "rack-near",
        "a consumer is told of the replica in its rack",
        _consumers(NEAR),
        _topics(near=2),
        has_racks=True,
    ),
    Trial(
        "rack-far",
        "a consumer reads from a leader in another rack than its own, another from a near replica",
        _consumers(("far-reader", "far", RACKS[0]), NEAR),
        _topics(far=3, near=2),
        Expected(("reads_across_zones",), {"client_id": "far-reader"}, is_timed=False),
        has_racks=True,
        is_kept=True,
    ),
    Trial(
        "rack-none",
        "a consumer sends no rack, another does",
        _consumers(("lost-reader", "none", None), NEAR),
        _topics(none=2, near=2),
        Expected(("sends_no_rack",), {"client_id": "lost-reader"}, is_timed=False),
        has_racks=True,
        is_kept=True,
    ),
)
