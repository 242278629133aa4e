"""Idempotent and transactional producers, commits and aborts, and both kinds of readers."""

from typing import Any

from lab.scenario import Lab, Scenario
from scenarios.codecs import shapes

CLIENTS = ("confluent", "java")


def setup(lab: Lab) -> None:
    """A topic for each client's transactions, and one without."""
    lab.create_topics({f"tx-{name}": {"partitions": 2} for name in (*CLIENTS, "idempotent")})


def run(lab: Lab) -> None:
    """Write, end some of it badly, and read it with and without what was aborted."""
    records = shapes("none")[:6]
    plain = [{"topic": "tx-idempotent", "partition": part, "records": records} for part in (0, 1)]
    lab.produce(
        "confluent",
        plain,
        client_id="confluent-idempotent",
        config={"enable.idempotence": True, "linger.ms": 50},
    )
    lab.worker(
        "confluent",
        "transactions",
        client_id="confluent-transactional",
        config={"transactional.id": "tx-confluent", "linger.ms": 50},
        rounds=_rounds("confluent"),
    )
    lab.worker(
        "confluent",
        "consume",
        client_id="idempotent-reader",
        **_all("tx-idempotent", 12),
        keep=True,
    )
    lab.java_worker(
        [
            {
                "op": "transactions",
                "client_id": "java-transactional",
                "config": {"transactional.id": "tx-java", "linger.ms": "50"},
                "rounds": _rounds("java"),
            },
            *(
                {
                    "op": "consume",
                    "client_id": f"java-{level}",
                    "config": {"isolation.level": level},
                    "keep": level == "read_uncommitted",
                    **_all("tx-confluent", count),
                }
                for level, count in (("read_committed", 16), ("read_uncommitted", 28))
            ),
        ]
    )
    for level, count in (("read_committed", 16), ("read_uncommitted", 28)):
        lab.worker(
            "confluent",
            "consume",
            isolation=level,
            client_id=f"confluent-{level}",
            keep=level == "read_uncommitted",
            **_all("tx-java", count),
        )


def _all(topic: str, count: int) -> dict[str, Any]:
    return {"assign": [[topic, 0], [topic, 1]], "count": count}


def _rounds(client: str) -> list[dict[str, Any]]:
    """Committed, aborted, committed with a group's offsets, aborted."""
    topic, found = f"tx-{client}", []
    for number, (commit, count) in enumerate(((True, 5), (False, 4), (True, 3), (False, 2))):
        records = shapes(f"round {number}")[-count:]
        turn: dict[str, Any] = {
            "commit": commit,
            "sends": [{"topic": topic, "partition": part, "records": records} for part in (0, 1)],
        }
        if number == 2:
            turn["offsets"] = [["tx-idempotent", 0, 6]]
        found.append(turn)
    return found


SCENARIO = Scenario(
    name="transactions",
    summary="An idempotent producer and two transactional ones that commit and abort; readers with "
    "read_committed and read_uncommitted; the broker's own connection over which it ends "
    "transactions.",
    setup=setup,
    run=run,
    listeners=("PLAINTEXT", "INTERNAL"),
    settings={"inter.broker.listener.name": "INTERNAL"},
)
