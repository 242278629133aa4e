"""Consumers at the end of the log: answers held back by time, and by bytes."""

from concurrent.futures import ThreadPoolExecutor

from lab.scenario import Lab, Scenario, sends_of


def setup(lab: Lab) -> None:
    """An empty topic, and one for a slow producer."""
    lab.create_topics({"waits-empty": {"partitions": 2}, "waits-trickle": {"partitions": 1}})


def run(lab: Lab) -> None:
    """Wait for nothing, then for something that comes while the broker holds the answer."""
    empty = [["waits-empty", 0], ["waits-empty", 1]]
    lab.consume(
        "confluent",
        empty,
        0,
        linger=4,
        offset="latest",
        config={"fetch.wait.max.ms": 700, "fetch.min.bytes": 1},
    )
    lab.consume(
        "kafka_python", empty, 0, linger=3, offset="latest", config={"fetch_max_wait_ms": 400}
    )
    lab.consume("aiokafka", empty, 0, linger=3, offset="latest", config={"fetch_max_wait_ms": 250})
    _trickle(lab)
    # All of it is there, but less than the least that is asked for: the broker waits to the end.
    lab.console_consumer(
        "waits-trickle",
        "--from-beginning --max-messages 12 --timeout-ms 8000",
        client_id="console-min-bytes",
        settings=("fetch.min.bytes=1000000", "fetch.max.wait.ms=900"),
    )
    # And at once, with nothing to wait for.
    lab.console_consumer(
        "waits-trickle",
        "--from-beginning --max-messages 12 --timeout-ms 8000",
        client_id="console-at-once",
        settings=("fetch.min.bytes=1", "fetch.max.wait.ms=0"),
    )


def _trickle(lab: Lab) -> None:
    sends = sends_of("waits-trickle", 12, 200, pause=0.3)
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(
            lab.worker,
            "confluent",
            "consume",
            assign=[["waits-trickle", 0]],
            count=12,
            client_id="confluent-trickle",
            config={"fetch.wait.max.ms": 2000},
        )
        lab.produce("kafka_python", sends, one_at_a_time=True)
        reading.result(60)


SCENARIO = Scenario(
    name="waits",
    summary="Consumers at the end of the log with waits of 250 to 2000 ms; a producer whose "
    "records end some of the waits; a least number of bytes that is never there.",
    setup=setup,
    run=run,
)
