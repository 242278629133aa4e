"""Clients of the TLS listener, and one that speaks TLS to the port that does not."""

from lab.broker import address
from lab.scenario import Lab, Scenario, sends_of


def setup(lab: Lab) -> None:
    """A topic for each client."""
    names = ("confluent", "kafka_python", "aiokafka", "java")
    lab.create_topics({f"tls-{name}": {"partitions": 1} for name in names})


def run(lab: Lab) -> None:
    """Produce and read over TLS, then knock at the wrong door."""
    trusted = str(lab.broker.certificate)
    settings: dict[str, dict[str, object]] = {
        "confluent": {"security.protocol": "ssl", "ssl.ca.location": trusted},
        "kafka_python": {"security_protocol": "SSL", "ssl_cafile": trusted},
        "aiokafka": {"security_protocol": "SSL", "cafile": trusted},
    }
    for client, config in settings.items():
        topic = f"tls-{client}"
        sends = sends_of(topic, 20, 300)
        lab.produce(client, sends, config=config, bootstrap=address("SSL"))
        lab.consume(client, [[topic, 0]], 20, config=config, bootstrap=address("SSL"))
    java = (
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={trusted}",
    )
    lab.console_producer(
        "tls-java",
        [f"secret {number}" for number in range(20)],
        acks="all",
        listener="SSL",
        settings=java,
    )
    lab.console_consumer(
        "tls-java",
        "--from-beginning --max-messages 20",
        listener="SSL",
        client_id="console-consumer",
        settings=java,
    )
    knocking = {"message.timeout.ms": 1500, "reconnect.backoff.ms": 500}
    lab.produce(
        "confluent",
        sends_of("tls-no-answer", 1, 10),
        acks=1,
        client_id="tls-to-plaintext",
        bootstrap=address("PLAINTEXT"),
        config=settings["confluent"] | knocking,
    )


SCENARIO = Scenario(
    name="tls",
    summary="Four clients produce and read over the TLS listener; a fifth speaks TLS to the "
    "plaintext listener, which refuses it.",
    setup=setup,
    run=run,
    listeners=("SSL", "PLAINTEXT"),
)
