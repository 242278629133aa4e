"""What brokers refuse: unknown topics, messages that are too large, offsets that are not there."""

from lab.scenario import Lab, Scenario, sends_of
from lab.sniffer import Recording

SMALL = "errors-small"
PLAIN = "errors-plain"


def setup(lab: Lab) -> None:
    """A topic whose limit is lower than any client's own, so that the broker is who refuses."""
    lab.create_topics(
        {
            SMALL: {"partitions": 1, "config": {"max.message.bytes": "2000"}},
            PLAIN: {"partitions": 1},
        }
    )


def run(lab: Lab) -> None:
    """The same three mistakes, by four clients."""
    limits = {
        "confluent": {"message.timeout.ms": 3000},
        "kafka_python": {"max_block_ms": 2000},
        "aiokafka": {"request_timeout_ms": 3000},
    }
    for client, config in limits.items():
        lab.produce(
            client, sends_of(SMALL, 1, 5000), client_id=f"{client}-too-large", config=config
        )
        lab.produce(client, sends_of(SMALL, 2, 500), acks=1, client_id=f"{client}-fits")
        lab.produce(
            client,
            sends_of("errors-no-such-topic", 2, 100),
            acks=1,
            client_id=f"{client}-unknown-topic",
            config=config,
        )
        lab.consume(
            client, [[PLAIN, 0]], 1, client_id=f"{client}-out-of-range", offset=1_000_000, linger=0
        )
    lab.console_producer(SMALL, ["y" * 4000], acks="all", may_fail=True)
    # One record each: a client may give up a second one without sending it, once the first has
    # been refused (kafka-python does), and then no one has counted what was on the wire.
    refused = (one for one in lab.clients if "errors" in one and SMALL in one.get("sent", {}))
    lab.rejected[SMALL] = sum(sum(one["errors"].values()) for one in refused)
    lab.console_producer(
        "errors-no-such-topic", ["z"], acks="1", may_fail=True, settings=("max.block.ms=2000",)
    )
    lab.console_consumer(
        PLAIN,
        "--partition 0 --offset 1000000 --timeout-ms 3000",
        client_id="console-out-of-range",
        may_fail=True,
        settings=("auto.offset.reset=none",),
    )


SCENARIO = Scenario(
    name="errors",
    summary="Messages larger than the topic allows, topics that do not exist and offsets out of "
    "range, by four clients.",
    setup=setup,
    run=run,
    recording=Recording(file_format="pcapng"),
)
