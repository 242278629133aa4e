"""The newer consumer protocol (KIP-848) with two members, and share groups (KIP-932)."""

import time
from concurrent.futures import ThreadPoolExecutor

from lab.scenario import CONFIGS, GROUPS, Lab, Scenario

TOPIC, SHARED = "next-consumer", "next-shared"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


def setup(lab: Lab) -> None:
    """Records that were there before, and a share group that begins with the first."""
    lab.create_topics({TOPIC: {"partitions": 4}, SHARED: {"partitions": 2}})
    for topic, parts in ((TOPIC, 4), (SHARED, 2)):
        sends = [{"topic": topic, "partition": part, "count": 10} for part in range(parts)]
        sends = [send | {"size": 80} for send in sends]
        lab.produce("confluent", sends, client_id="setup")
    lab.clients.clear()
    earliest = ("--alter", "--add-config", "share.auto.offset.reset=earliest")
    lab.tool(CONFIGS, *earliest, "--entity-type", "groups", "--entity-name", "next-share")


def run(lab: Lab) -> None:
    """Members that join and leave, then the groups described and deleted."""
    with ThreadPoolExecutor(2) as beside:
        first = beside.submit(_member, lab, "next-1", 8000)
        time.sleep(3.0)
        second = beside.submit(_member, lab, "next-2", 3000)
        time.sleep(2.0)
        lab.tool(GROUPS, "--describe", "--group", "next-group")
        first.result(60)
        second.result(60)
    with ThreadPoolExecutor(2) as beside:
        both = [beside.submit(_sharer, lab, f"share-{number}") for number in (1, 2)]
        for one in both:
            one.result(60)
    for words in (
        "--describe --group next-share",
        "--list",
        "--describe --group next-share --state",
    ):
        lab.tool(SHARE_GROUPS, *words.split())
        lab.java_client("administer", "ShareGroupCommand", arguments=words)
    lab.tool(GROUPS, "--delete", "--group", "next-group")
    lab.tool(SHARE_GROUPS, "--delete", "--group", "next-share", may_fail=True)


def _member(lab: Lab, client_id: str, timeout_ms: int) -> None:
    options = f"--from-beginning --timeout-ms {timeout_ms} --group next-group"
    lab.console_consumer(TOPIC, options, client_id=client_id, settings=("group.protocol=consumer",))


def _sharer(lab: Lab, client_id: str) -> None:
    words = ["--topic", SHARED, "--group", "next-share", "--timeout-ms", "9000"]
    words += ["--command-property", f"client.id={client_id}"]
    out, _ = lab.tool(SHARE_CONSUMER, *words)
    # Not "consumed": these records came in ShareFetch responses, not in Fetch responses.
    lines = sum(line.startswith(f"{SHARED}/") for line in out.splitlines())
    lab.java_client("share", client_id, shared={SHARED: {"*": lines}})


SCENARIO = Scenario(
    name="next-groups",
    summary="A group of the newer consumer protocol with two members, a share group with two, both "
    "described and deleted; the broker's own connection with the share coordinator's requests.",
    setup=setup,
    run=run,
    listeners=("PLAINTEXT", "INTERNAL"),
    settings={
        "inter.broker.listener.name": "INTERNAL",
        # A member hears of its partitions with a heartbeat only: 5 s apart, if no one says more.
        "group.share.min.heartbeat.interval.ms": "500",
        "group.share.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "1000",
    },
)
