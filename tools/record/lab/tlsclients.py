"""Clients of a TLS listener: each writes a little, and most read it back."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from lab import cache
from lab.broker import PASSWORDS, SASL_MODULE, address
from lab.processes import need, run
from lab.scenario import Lab

TOPIC = "orders"
COUNT, SIZE = 12, 200
USER, MECHANISM = "alice", "SCRAM-SHA-256"
FOREIGN: dict[str, Callable[[], list[str]]] = {"kafkajs": cache.kafkajs, "franz": cache.franz}
Settings = dict[str, Any]


class Clients:
    """The clients of one listener. Those that can do it write the secrets of their connections.

    ``tls`` is what the workers take; ``certificate``: they have one; ``plain``: they do not speak
    TLS.
    """

    def __init__(
        self,
        lab: Lab,
        listener: str = "SSL",
        *,
        certificate: bool = False,
        plain: bool = False,
        **tls: Any,
    ) -> None:
        self._lab = lab
        self._listener = listener
        self._plain = plain
        self._more = tls
        if certificate:
            self._more["keystore"] = str(lab.tls_broker.client_keystore)

    def produce(self, *names: str) -> None:
        """Write with each of these."""
        for name in names:
            self._produce(name)

    def both(self, *names: str) -> None:
        """Write and read with each of these."""
        for name in names:
            if name == "java":
                self._java(self._java_produce(), self._java_consume())
                continue
            self._produce(name)
            if name in FOREIGN:
                group = f"{name}-group"
                self._foreign(name, "group", group=group, topics=[TOPIC], count=COUNT)
            else:
                self._worker(name, "consume", assign=[[TOPIC, 0]], count=COUNT)

    def kcat(self) -> None:
        """Write and read with kcat, which links OpenSSL: a preloaded library writes its secrets."""
        need("kcat")
        keylog = self._lab.keylog("kcat")
        words = [f"LD_PRELOAD={cache.keylog_library()}", f"SSLKEYLOGFILE={keylog}", "kcat"]
        words += ["-b", address(self._listener), "-t", TOPIC, "-p", "0"]
        for name, value in self._native("confluent").items():
            words += ["-X", f"{name}={value}"]
        lines = "".join(f"order {number}\n" for number in range(COUNT))
        told = run(["kcat", "-V"], timeout=20).stdout
        about = {"library": "kcat", "version": told.split("Version ")[1].split()[0]}
        for op, what, more, stdin in (
            ("produce", "sent", ["-P"], lines),
            ("consume", "consumed", ["-C", "-e", "-c", str(COUNT)], None),
        ):
            given = ["env", *words, "-X", f"client.id=kcat-{op}", *more]
            out = run(self._lab.namespace.command(given), timeout=60, stdin=stdin).stdout
            number = COUNT if stdin else len(out.splitlines())
            counted = {what: {TOPIC: {"0": number}}}
            self._lab.clients.append({"op": op, **about, "client_id": f"kcat-{op}", **counted})

    def one_at_a_time(self, name: str, count: int) -> None:
        """Write with one of librdkafka and Python, each record in a request of its own."""
        sends = [{"topic": TOPIC, "partition": 0, "count": count, "size": SIZE}]
        self._worker(name, "produce", acks="all", sends=sends, one_at_a_time=True)

    def knock(self, name: str) -> None:
        """Try to write with one of librdkafka, Python and Java, and give up after a while."""
        sends = [{"topic": TOPIC, "partition": 0, "count": 1, "size": SIZE}]
        if name == "java":
            settings = {**self._native(name), "max.block.ms": 2500, "reconnect.backoff.ms": 1000}
            given = tuple(f"{key}={value}" for key, value in settings.items())
            self._lab.console_producer(
                TOPIC, [], acks="all", listener=self._listener, settings=given, may_fail=True
            )
        elif name == "confluent":
            patience = {"message.timeout.ms": 1500, "reconnect.backoff.ms": 600}
            self._worker(name, "produce", acks=1, sends=sends, config=patience)
        else:
            patience = {"bootstrap_timeout_ms": 2500, "reconnect_backoff_ms": 900}
            patience |= {"reconnect_backoff_max_ms": 900}
            self._worker(name, "knock", acks=1, sends=sends, config=patience)

    def _produce(self, name: str) -> None:
        if name == "java":
            self._java(self._java_produce())
        elif name in FOREIGN:
            self._foreign(name, "produce", acks="all", sends=_sends())
        else:
            self._worker(name, "produce", acks="all", sends=_sends())

    def _java_produce(self) -> Settings:
        return {"op": "produce", "client_id": "java-producer", "sends": _sends()}

    def _java_consume(self) -> Settings:
        where: Settings = {"assign": [[TOPIC, 0]], "count": COUNT}
        return {"op": "consume", "client_id": "java-consumer", **where}

    def _java(self, *steps: Settings) -> None:
        given = [step | {"config": self._native("java")} for step in steps]
        self._lab.java_worker(given, listener=self._listener, options=self._lab.java_options())

    def _worker(
        self, name: str, op: str, config: Mapping[str, Any] | None = None, **job: Any
    ) -> None:
        job["config"] = self._native(name) | dict(config or {})
        job["bootstrap"] = address(self._listener)
        tls = self._tls(name)
        if name == "confluent":
            # librdkafka knows of no key log.
            self._lab.worker(name, op, **job)
        elif name == "kafka_python":
            self._lab.worker(name, op, tls=tls, **job)
        else:
            environment = (f"SSLKEYLOGFILE={tls.pop('keylog')}",)
            self._lab.worker(name, op, environment=environment, tls=tls, **job)

    def _foreign(self, name: str, op: str, **job: Any) -> None:
        program = FOREIGN[name]()
        if name == "kafkajs":
            program[1:1] = [f"--tls-keylog={self._lab.keylog(name)}"]
        if self._sasl:
            login = {"username": USER, "password": PASSWORDS[USER]}
            job["sasl"] = login | {"mechanism": MECHANISM.lower()}
        job |= {"client_id": f"{name}-{op}", "bootstrap": address(self._listener)}
        self._lab.foreign_worker(program, op, tls=self._tls(name), **job)

    @property
    def _sasl(self) -> bool:
        return "SASL" in self._listener

    def _tls(self, name: str) -> Settings:
        """Return what the workers of Python, Node and Go take alike."""
        broker, keylog = self._lab.tls_broker, str(self._lab.keylog(name))
        return {"ca": str(broker.certificate), "keylog": keylog} | self._more

    def _native(self, name: str) -> Settings:
        """Return settings by the library's own names."""
        protocol = "SASL_SSL" if self._sasl else "SSL"
        if self._plain:
            return {}
        if name == "confluent":
            return {"security.protocol": protocol.lower()} | self._of_librdkafka()
        if name == "java":
            return {"security.protocol": protocol} | self._of_java()
        login = {
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORDS[USER],
        }
        return {"security_protocol": protocol} | (login if self._sasl else {})

    def _of_librdkafka(self) -> Settings:
        tls = self._tls("confluent")
        found = {"ssl.ca.location": tls["ca"]}
        if "keystore" in tls:
            found |= {f"ssl.{what}.location": tls["keystore"] for what in ("key", "certificate")}
        if self._sasl:
            found |= {"sasl.mechanism": MECHANISM, "sasl.username": USER}
            found |= {"sasl.password": PASSWORDS[USER]}
        return found

    def _of_java(self) -> Settings:
        tls = self._tls("java")
        found = {"ssl.truststore.type": "PEM", "ssl.truststore.location": tls["ca"]}
        if "keystore" in tls:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": tls["keystore"]}
        if "version" in tls:
            found |= {"ssl.enabled.protocols": tls["version"]}
        if self._sasl:
            module = f"{SASL_MODULE}.scram.ScramLoginModule required"
            login = f'{module} username="{USER}" password="{PASSWORDS[USER]}";'
            found |= {"sasl.mechanism": MECHANISM, "sasl.jaas.config": login}
        return found


def _sends() -> list[Settings]:
    records = [
        {
            "key": _packed(f"key-{number}"),
            "value": _packed((f"order {number} " * SIZE)[:SIZE]),
            "headers": [],
        }
        for number in range(COUNT)
    ]
    return [{"topic": TOPIC, "partition": 0, "records": records}]


def _packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
