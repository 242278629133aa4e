"""librdkafka's mock cluster: real TCP between a client and brokers inside its own process."""

from lab.scenario import Lab, Scenario


def run(lab: Lab) -> None:
    """Many small requests to three mock brokers, then all of it read once."""
    sends = [{"topic": "mock", "partition": part, "count": 40, "size": 60} for part in range(4)]
    lab.worker(
        "confluent",
        "mock",
        brokers=3,
        sends=sends,
        one_at_a_time=True,
        consume={
            "client_id": "mock-consumer",
            "count": 160,
            "assign": [["mock", part] for part in range(4)],
        },
    )


SCENARIO = Scenario(
    name="mock",
    summary="A producer of many small requests and a consumer, with the three brokers of "
    "librdkafka's mock cluster; no Java.",
    run=run,
    broker=False,
)
