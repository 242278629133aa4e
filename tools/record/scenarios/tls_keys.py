"""TLS whose secrets are kept: each client, version and suite, and what goes wrong."""

from collections.abc import Callable, Mapping
from typing import Any

from lab import cache
from lab.broker import PASSWORDS, SASL_MODULE, address
from lab.scenario import Lab, Scenario
from lab.tlsbroker import agent_option

TOPIC = "orders"
COUNT = 12
SIZE = 200


class Clients:
    """Clients of a TLS listener, each of which writes and reads a little."""

    def __init__(self, lab: Lab, listener: str = "SSL", *, certificate: bool = False) -> None:
        self.lab = lab
        self.listener = listener
        self.certificate = certificate

    def java(self, *options: str, **config: Any) -> None:
        """Kafka's own client: an agent of the JVM writes the secrets."""
        lab, given = self.lab, self._java_config() | config
        sends = [{"topic": TOPIC, "partition": 0, "count": COUNT, "size": SIZE}]
        sends = [{"topic": TOPIC, "partition": 0, "records": _records()}]
        steps = [
            {"op": "produce", "client_id": "java-producer", "sends": sends, "config": given},
            {
                "op": "consume",
                "client_id": "java-consumer",
                "assign": [[TOPIC, 0]],
                "count": COUNT,
                "config": given,
            },
        ]
        agent = agent_option(lab.keylog("java"))
        lab.java_worker(steps, listener=self.listener, options=(agent, *options))

    def python(self, library: str, **tls: Any) -> None:
        """Libraries that take a context of Python's ``ssl``."""
        wanted = self._tls(library) | tls
        self._python(library, {"tls": wanted, "config": {"security_protocol": "SSL"}})

    def _python(self, library: str, more: Mapping[str, Any]) -> None:
        sends = [{"topic": TOPIC, "partition": 0, "count": COUNT, "size": SIZE}]
        bootstrap = address(self.listener)
        self.lab.worker(library, "produce", acks="all", sends=sends, bootstrap=bootstrap, **more)
        self.lab.worker(
            library, "consume", assign=[[TOPIC, 0]], count=COUNT, bootstrap=bootstrap, **more
        )

    def _tls(self, client: str) -> dict[str, Any]:
        broker = self.lab.tls_broker
        found = {"ca": str(broker.certificate), "keylog": str(self.lab.keylog(client))}
        if self.certificate:
            found["keystore"] = str(broker.client_keystore)
        return found

    def _java_config(self) -> dict[str, Any]:
        broker = self.lab.tls_broker
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(broker.certificate),
        }


def _records() -> list[dict[str, Any]]:
    import base64

    return [
        {
            "key": base64.b64encode(b"key-%d" % n).decode(),
            "value": base64.b64encode((b"order %d " % n * SIZE)[:SIZE]).decode(),
            "headers": [],
        }
        for n in range(COUNT)
    ]


def setup(lab: Lab) -> None:
    """One topic."""
    lab.create_topics({TOPIC: {"partitions": 1}})


def run(lab: Lab) -> None:
    clients = Clients(lab)
    clients.java()
    clients.python("kafka_python")
    clients.python("aiokafka")


SCENARIOS = tuple(
    Scenario(
        name=f"tls{version.replace('.', '')}-clients",
        summary=f"Java and two Python clients over TLS {version}.",
        setup=setup,
        run=run,
        listeners=("SSL",),
        settings={"ssl.enabled.protocols": f"TLSv{version}"},
        tls=True,
    )
    for version in ("1.2", "1.3")
)
