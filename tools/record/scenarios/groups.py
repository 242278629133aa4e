"""Kafka's console consumers in one group, and one of the newer group protocol."""

import time
from concurrent.futures import ThreadPoolExecutor

from lab.scenario import GROUPS, Lab, Scenario

TOPIC = "groups-java"


def setup(lab: Lab) -> None:
    """A topic with records in it before the recording begins."""
    lab.create_topics({TOPIC: {"partitions": 4}})
    sends = [{"topic": TOPIC, "partition": part, "count": 25, "size": 120} for part in range(4)]
    lab.produce("confluent", sends, client_id="setup")
    lab.clients.clear()


def run(lab: Lab) -> None:
    """One member, then two, then one; then one of the newer protocol."""
    with ThreadPoolExecutor(2) as beside:
        first = beside.submit(_member, lab, "member-1", 9000)
        time.sleep(4.0)
        second = beside.submit(_member, lab, "member-2", 2500)
        first.result(60)
        second.result(60)
    lab.tool(GROUPS, "--describe", "--group", "groups-classic")
    lab.java_client("administer", "ConsumerGroupCommand", arguments="--describe")
    lab.console_consumer(
        TOPIC,
        "--from-beginning --timeout-ms 4000 --group groups-next",
        client_id="member-next",
        settings=("group.protocol=consumer",),
    )


def _member(lab: Lab, client_id: str, timeout_ms: int) -> None:
    lab.console_consumer(
        TOPIC,
        f"--from-beginning --timeout-ms {timeout_ms} --group groups-classic",
        client_id=client_id,
        settings=(
            "heartbeat.interval.ms=500",
            "session.timeout.ms=6000",
            "auto.commit.interval.ms=1000",
        ),
    )


SCENARIO = Scenario(
    name="groups",
    summary="Two console consumers of one classic group, the second of which joins later and "
    "leaves first; then one of the newer consumer protocol. The records were there before.",
    setup=setup,
    run=run,
)
