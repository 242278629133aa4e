"""The same few requests, recorded in different ways."""

from lab.broker import address
from lab.scenario import Lab, Scenario, sends_of
from lab.sniffer import Recording

TOPIC = "small"


def setup(lab: Lab) -> None:
    """One topic."""
    lab.create_topics({TOPIC: {"partitions": 2}})


def run(lab: Lab) -> None:
    """Two clients write and read a little."""
    _few(lab, "PLAINTEXT")


def run_large(lab: Lab) -> None:
    """The same, with a message that is larger than a loopback's own MTU."""
    _few(lab, "PLAINTEXT")
    sends = [{"topic": TOPIC, "partition": 1, "count": 1, "size": 100_000}]
    lab.produce("kafka_python", sends, acks=1, client_id="large-message")


def run_ipv6(lab: Lab) -> None:
    """The same, over IPv6."""
    _few(lab, "IPV6")


def run_controller(lab: Lab) -> None:
    """The topic is made while the recording goes on."""
    lab.worker("confluent", "create_topics", topics={TOPIC: {"partitions": 2}}, client_id="creator")
    _few(lab, "PLAINTEXT")


def _few(lab: Lab, listener: str) -> None:
    for part, client in enumerate(("confluent", "aiokafka")):
        sends = sends_of(TOPIC, 10, 400, part)
        lab.produce(client, sends, bootstrap=address(listener))
        lab.consume(client, [[TOPIC, part]], 10, linger=1.0, bootstrap=address(listener))


SCENARIOS = (
    Scenario(
        name="loopback",
        summary="A few requests on an ordinary loopback: MTU 65536, segmentation offload on, "
        "microseconds.",
        setup=setup,
        run=run_large,
        recording=Recording(nanoseconds=False),
        mtu=65536,
        offload=True,
    ),
    Scenario(
        name="any",
        summary="A few requests recorded on all interfaces at once (Linux cooked, version 2).",
        setup=setup,
        run=run,
        recording=Recording(interface="any"),
    ),
    Scenario(
        name="ipv6",
        summary="A few requests over IPv6, as pcapng.",
        setup=setup,
        run=run_ipv6,
        listeners=("IPV6",),
        recording=Recording(file_format="pcapng"),
    ),
    Scenario(
        name="snaplen",
        summary="A few requests of which only the first 128 bytes of each packet were kept.",
        setup=setup,
        run=run,
        recording=Recording(snaplen=128),
    ),
    Scenario(
        name="controller",
        summary="A node's whole life, with its talk to its own controller: start, registration, "
        "heartbeats, a topic, a few requests, shutdown.",
        run=run_controller,
        listeners=("PLAINTEXT", "CONTROLLER"),
        whole_life=True,
    ),
    Scenario(
        name="kraft-3-9",
        summary="A few requests to a KRaft broker of Kafka 3.9.1.",
        setup=setup,
        run=run,
        broker_version=("3.9.1", "2.13"),
    ),
)
