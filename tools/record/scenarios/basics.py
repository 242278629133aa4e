"""Every client produces with every acks, reads all of it once, and forms a group that changes."""

from lab.scenario import Lab, Scenario

CLIENTS = ("confluent", "kafka_python", "aiokafka")
ACKS: tuple[str | int, ...] = (0, 1, "all")


def setup(lab: Lab) -> None:
    """A topic for each client, and one for groups."""
    names = [*CLIENTS, "java"]
    lab.create_topics({f"basics-{name}": {"partitions": 3} for name in names})


def run(lab: Lab) -> None:
    """Produce, then read."""
    for client in CLIENTS:
        topic = f"basics-{client}"
        for acks in ACKS:
            sends = [
                {"topic": topic, "partition": part, "count": 20, "size": 100 + 300 * part}
                for part in range(3)
            ]
            lab.produce(client, sends, acks=acks, client_id=f"{client}-acks-{acks}")
        lab.consume(client, [[topic, part] for part in range(3)], 180, linger=1.5)
    for acks in ACKS:
        values = [f"line {number} of the console" for number in range(30)]
        lab.console_producer("basics-java", values, acks=str(acks))
    lab.console_consumer(
        "basics-java",
        "--from-beginning --timeout-ms 4000 --group basics-console",
        client_id="console-consumer",
    )
    for client in CLIENTS:
        lab.worker(
            client,
            "group",
            topics=[f"basics-{client}"],
            group=f"group-{client}",
            count=180,
            partitions=3,
        )


SCENARIO = Scenario(
    name="basics",
    summary="Four clients produce with acks 0, 1 and all, read everything once from assigned "
    "partitions, and once more as a consumer group in which a second member joins and leaves.",
    setup=setup,
    run=run,
)
