"""One fault each, of those that are seen in the protocol, and the finding that it is."""

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab.broker import Broker, address
from lab.cache import HERE, old_clients
from lab.processes import run
from lab.requestlog import api, exchanges
from lab.scenario import ACLS, CONFIGS, GROUPS, TOPICS, Lab, Scenario, sends_of

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
GROUP = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}


def _bad(lab: Lab, op: str, **job: Any) -> None:
    """Let a client that behaves badly do a job."""
    lab.worker("faults", op, 300, **job)


def _topic(name: str, partitions: int = 1, **config: str) -> Any:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return lambda lab: lab.create_topics({name: {"partitions": partitions, "config": settings}})


def _quota_setup(lab: Lab) -> None:
    lab.create_topics({"orders": {"partitions": 1}})
    for client, quota in (
        ("greedy", "producer_byte_rate=2000"),
        ("patient", "producer_byte_rate=2000"),
        ("poller", "request_percentage=0.01"),
    ):
        words = ("--entity-type", "clients", "--entity-name", client)
        lab.tool(CONFIGS, "--alter", "--add-config", quota, *words)


def _throttled(lab: Lab) -> None:
    """One of them (librdkafka) sends on within the time it was told to wait."""
    sends = sends_of("orders", 40, 250, pause=0.02)
    lab.produce("confluent", sends, acks=1, client_id="greedy", one_at_a_time=True)
    lab.console_producer(
        "orders",
        ["y" * 250] * 40,
        acks="1",
        settings=("client.id=patient", "linger.ms=0", "batch.size=300"),
    )
    lab.clients[-1]["client_id"] = "patient"
    lab.consume("confluent", [["orders", 0]], 80, client_id="poller")


def _metadata_storm(lab: Lab) -> None:
    lab.console_producer("oders", ["z"], acks="1", may_fail=True, settings=("max.block.ms=33000",))


def _login_loop(lab: Lab) -> None:
    config = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "wrong",
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 200,
    }
    where = address("SASL")
    _bad(lab, "knock_on", client_id="mistyped", config=config, seconds=22, bootstrap=where)


def _connection_storm(lab: Lab) -> None:
    _bad(lab, "connect_often", client_id="hasty", topic="orders", count=18, size=50)


def _plaintext_to_tls(lab: Lab) -> None:
    config = {"reconnect.backoff.ms": 100, "reconnect.backoff.max.ms": 500}
    where = address("SSL")
    _bad(lab, "knock_on", client_id="clear", config=config, seconds=6, bootstrap=where)


def _old_client(lab: Lab) -> None:
    """kafka-python and librdkafka of old, made to speak as to a broker of 0.9."""
    old = dataclasses.replace(lab.tools, python=old_clients())
    program = [str(old.python), "-W", "ignore", str(HERE / "clients" / "confluent_worker.py")]
    config = {
        "api.version.request": False,
        "broker.version.fallback": "0.9.0",
        "message.timeout.ms": 4000,
        "reconnect.backoff.ms": 200,
    }
    job: dict[str, Any] = {"acks": 1, "sends": sends_of("orders", 1, 50), "config": config}
    lab.foreign_worker(program, "produce", client_id="legacy", **job)


def _tiny_batches(lab: Lab) -> None:
    sends = sends_of("orders", 300, 40)
    lab.produce(
        "confluent", sends, acks=1, client_id="eager", config={"linger.ms": 0}, one_at_a_time=True
    )


def _hot_partition(lab: Lab) -> None:
    for client in ("one", "two"):
        sends = [
            send
            for part in range(8)
            for send in sends_of("orders", 60 if part == 3 else 1, 300, part)
        ]
        config = {"linger.ms": 20, "batch.num.messages": 5}
        lab.produce("confluent", sends, acks=1, client_id=client, config=config)


def _hot_client(lab: Lab) -> None:
    for number in range(6):
        sends = sends_of("orders", 1, 100, number)
        lab.produce("confluent", sends, acks=1, client_id=f"cool-{number}")
    sends = [send for part in range(6) for send in sends_of("orders", 12, 1000, part)]
    lab.produce("confluent", sends, acks=1, client_id="hot")


def _too_large(lab: Lab) -> None:
    sends = sends_of("orders", 3, 3000, pause=0.3)
    lab.produce("confluent", sends, client_id="bulky", config={"linger.ms": 0})
    lab.rejected["orders"] = 3


def _refused(lab: Lab) -> int:
    """How many Produce requests were refused, as the broker's log has it."""
    found = exchanges(lab.broker.completed_since(0))
    answers = [one["response"]["responses"] for one in found if api(one) == "Produce"]
    parts = (part for topics in answers for one in topics for part in one["partitionResponses"])
    return sum(part["errorCode"] != 0 for part in parts)


def _not_allowed_setup(lab: Lab) -> None:
    lab.create_topics({"salaries": {"partitions": 1}})
    words = ("--add", "--topic", "salaries", "--allow-principal")
    lab.tool(ACLS, *words, "User:*", "--operation", "Describe")
    lab.tool(ACLS, *words, "User:payroll", "--operation", "Write")


def _not_allowed(lab: Lab) -> None:
    config = {"message.timeout.ms": 3000}
    lab.produce("confluent", sends_of("salaries", 1, 100), client_id="stranger", config=config)
    # A record each.
    lab.rejected["salaries"] = _refused(lab)


class _Second(Broker):
    """A second node of a broker's cluster: a broker alone, which that one's controller leads."""

    def __init__(self, first: Broker) -> None:
        super().__init__(first.tools, first.namespace, first.folder.with_name("second"))
        self.first = first

    def prepare(self) -> None:
        """Make the properties file, and storage formatted with the id of the cluster."""
        self.folder.mkdir()
        told = (self.first.data / "meta.properties").read_text().split()
        ids = [line.removeprefix("cluster.id=") for line in told if line.startswith("cluster.id=")]
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings()))
        form = ["format", f"--cluster-id={ids[0]}", f"--config={properties}"]
        run(self._java("kafka.tools.StorageTool", *form), timeout=60)

    def _watched(self) -> tuple[str, ...]:
        return ()

    def _settings(self) -> list[tuple[str, str]]:
        where = "PLAINTEXT://127.0.0.1:9102"
        return [
            ("process.roles", "broker"),
            ("node.id", "2"),
            ("controller.quorum.voters", f"1@{address('CONTROLLER')}"),
            ("controller.listener.names", "CONTROLLER"),
            ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
            ("listeners", where),
            ("advertised.listeners", where),
            ("log.dirs", str(self.data)),
        ]


def _few_replicas_setup(lab: Lab) -> None:
    """A topic with two replicas, the second of which has gone."""
    with _Second(lab.broker):
        config = {"min.insync.replicas": "2"}
        lab.create_topics({"ledger": {"partitions": 1, "replication": 2, "config": config}})


def _few_replicas(lab: Lab) -> None:
    config = {"message.timeout.ms": 4000, "retry.backoff.ms": 300, "retry.backoff.max.ms": 300}
    lab.produce("confluent", sends_of("ledger", 1, 100), client_id="careful", config=config)
    lab.rejected["ledger"] = _refused(lab)


def _disk(lab: Lab) -> None:
    """The second log folder goes away; the broker notices when it next writes a checkpoint."""
    folder = lab.broker.folder / "second"
    part = int(next(folder.glob("orders-*")).name.rpartition("-")[2])
    folder.rename(folder.with_name("gone"))
    config = {"message.timeout.ms": 3000, "retry.backoff.ms": 200, "linger.ms": 0}
    sends = sends_of("orders", 40, 100, part, pause=0.25)
    lab.produce("confluent", sends, client_id="writer", config=config)


def _mutations_setup(lab: Lab) -> None:
    words = ("--entity-type", "clients", "--entity-default")
    lab.tool(CONFIGS, "--alter", "--add-config", "controller_mutation_rate=1", *words)


def _mutations(lab: Lab) -> None:
    """The first takes more than is left; the tool does not try the others again."""
    for number in range(3):
        words = ("--create", "--topic", f"made-{number}", "--partitions", "12")
        lab.tool(TOPICS, *words, may_fail=True)
        lab.java_client("administer", "TopicCommand", arguments=" ".join(words))


def _rebalances(lab: Lab) -> None:
    job = {"group": "billing", "client_id": "billing", "topics": ["orders"], "config": GROUP}
    _bad(lab, "come_and_go", rounds=3, alone=1.5, together=2.5, **job)


def _frozen(lab: Lab) -> None:
    config = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 500}
    job = {"group": "billing", "client_id": "billing", "topics": ["orders"], "config": config}
    with ThreadPoolExecutor(2) as beside:
        steady = beside.submit(_bad, lab, "stay", member="steady", before=17, after=0, **job)
        time.sleep(2.0)
        frozen = {"member": "frozen", "before": 4, "frozen": 6, "after": 3}
        other = beside.submit(_bad, lab, "stay", **frozen, **job)
        other.result(60)
        steady.result(60)


def _group_changes(lab: Lab) -> None:
    config = GROUP | {"topic.metadata.refresh.interval.ms": 1000}
    job = {"group": "billing", "client_id": "billing", "topics": ["orders"], "config": config}
    with ThreadPoolExecutor(1) as beside:
        then = {"then": ["orders", "returns"]}
        member = beside.submit(_bad, lab, "stay", before=16, after=3, **then, **job)
        for count in (3, 4):
            time.sleep(4.0)
            lab.tool(TOPICS, "--alter", "--topic", "orders", "--partitions", str(count))
        member.result(60)
    lab.java_client("administer", "TopicCommand", arguments="--alter")


def _next_setup(lab: Lab) -> None:
    """With a coordinator: else the first question for it would fail, perhaps unheard."""
    lab.create_topics({"orders": {"partitions": 2}})
    lab.tool(GROUPS, "--describe", "--group", "billing", may_fail=True)


def _next_rebalances(lab: Lab) -> None:
    config = {"group.protocol": "consumer"}
    job = {"group": "billing", "client_id": "billing", "topics": ["orders"], "config": config}
    _bad(lab, "come_and_go", rounds=3, alone=2, together=3, **job)


def _crowd_setup(lab: Lab) -> None:
    """With records in the topic: a first fetch is answered at once, and makes a session."""
    lab.create_topics({"orders": {"partitions": 2}})
    sends = [send for part in range(2) for send in sends_of("orders", 1, 20, part)]
    lab.produce("confluent", sends, client_id="setup")
    lab.clients.clear()


def _crowd(lab: Lab) -> None:
    config = {
        "fetch_max_wait_ms": 15000,
        "request_timeout_ms": 60000,
        "session_timeout_ms": 10000,
        "group_id": None,
        "enable_auto_commit": False,
        "metadata_max_age_ms": 300000,
    }
    # A session may be pushed out by a larger one when it is two minutes old, and was used then.
    job = {"topic": "orders", "count": 16, "age": 124, "after": 15.5}
    _bad(lab, "crowd", client_id="crowd", config=config, **job)


def _fault(name: str, finding: str, summary: str, run: Any, **more: Any) -> Scenario:
    return Scenario(name=f"fault-{name}", summary=summary, run=run, fault=finding, **more)


SCENARIOS = (
    _fault(
        "old-client",
        "refused_versions",
        "An old client that speaks to a broker of Kafka 4 as to one of 0.9: the broker closes the "
        "connection.",
        _old_client,
        setup=_topic("orders"),
        uncounted=True,
    ),
    _fault(
        "throttled",
        "throttled",
        "Producers over their byte rate, one of which sends within the throttle time all the same; "
        "a consumer over its share of request time.",
        _throttled,
        setup=_quota_setup,
        settings={"quota.window.num": "2"},
    ),
    _fault(
        "metadata-storm",
        "unknown_topic",
        "A producer of a topic that does not exist.",
        _metadata_storm,
    ),
    _fault(
        "login-loop",
        "login_failures",
        "A client with a wrong password that tries again and again.",
        _login_loop,
        listeners=("SASL",),
    ),
    _fault(
        "connection-storm",
        "connection_storm",
        "A client that connects anew for each record.",
        _connection_storm,
        setup=_topic("orders"),
    ),
    _fault(
        "plaintext-to-tls",
        "wrong_protocol",
        "A client that speaks plaintext to the TLS listener, over and over.",
        _plaintext_to_tls,
        listeners=("SSL",),
        uncounted=True,
    ),
    _fault(
        "rebalances",
        "rebalances",
        "A group with a member that stays and one that joins and leaves three times.",
        _rebalances,
        setup=_topic("orders", 2),
    ),
    _fault(
        "frozen-member",
        "rebalances",
        "A member of a group that is stopped (SIGSTOP) for longer than its session timeout.",
        _frozen,
        setup=_topic("orders", 2),
    ),
    _fault(
        "group-changes",
        "rebalances",
        "A group whose topic gets partitions twice, and whose member then subscribes to another.",
        _group_changes,
        setup=lambda lab: lab.create_topics(
            {"orders": {"partitions": 2}, "returns": {"partitions": 2}}
        ),
    ),
    _fault(
        "next-rebalances",
        "rebalances",
        "A group of the newer protocol with a member that stays and one that comes and goes.",
        _next_rebalances,
        setup=_next_setup,
        settings={
            "group.consumer.min.heartbeat.interval.ms": "500",
            "group.consumer.heartbeat.interval.ms": "500",
        },
    ),
    _fault(
        "sessions-evicted",
        "fetch_sessions_evicted",
        "More consumers than the broker keeps fetch sessions for.",
        _crowd,
        setup=_crowd_setup,
        settings={"max.incremental.fetch.session.cache.slots": "16"},
    ),
    _fault(
        "tiny-batches",
        "tiny_batches",
        "A producer that waits for each record before it sends the next.",
        _tiny_batches,
        setup=_topic("orders"),
    ),
    _fault(
        "hot-partition",
        "hot_partition",
        "Two producers whose records nearly all go to one of eight partitions.",
        _hot_partition,
        setup=_topic("orders", 8),
    ),
    _fault(
        "hot-client",
        "hot_client",
        "Seven producers, of which one sends most.",
        _hot_client,
        setup=_topic("orders", 6),
    ),
    _fault(
        "too-large",
        "too_large",
        "Records larger than the topic takes.",
        _too_large,
        setup=_topic("orders", max_message_bytes="2000"),
    ),
    _fault(
        "not-allowed",
        "not_authorized",
        "A client that may not write to a topic.",
        _not_allowed,
        setup=_not_allowed_setup,
        settings=AUTHORIZER,
    ),
    _fault(
        "few-replicas",
        "not_enough_replicas",
        "A topic with fewer replicas in sync than it wants.",
        _few_replicas,
        setup=_few_replicas_setup,
    ),
    _fault(
        "disk",
        "disk_failed",
        "A broker that loses one of its log folders while a client writes to a partition in it.",
        _disk,
        setup=_topic("orders", 4),
        uncounted=True,
        settings={"log.dirs": "{folder}/data,{folder}/second", "metadata.log.dir": "{folder}/data"},
    ),
    _fault(
        "mutation-quota",
        "over_quota",
        "A client that creates more partitions than its quota allows.",
        _mutations,
        setup=_mutations_setup,
        settings={"controller.quota.window.num": "2"},
    ),
)
