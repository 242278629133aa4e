"""Faults, and the finding that each should be; scenarios have them in other ways."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lab.authority import Authority
from lab.broker import PASSWORDS, PORTS
from lab.scenario import ACLS, CONFIGS, CONSUMER, PERFORMANCE, TOPICS
from lab.trial import Expected, Stage, Trial
from lab.trio import OUTSIDE

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
NODE = "10.88.0.1{}"


def _node(number: int) -> dict[str, Any]:
    return {"broker": NODE.format(number)}


def _topic(
    name: str, partitions: int = 3, replicas: int = 3, **config: str
) -> Callable[[Stage], None]:
    return lambda stage: stage.topic(name, partitions, replicas, **config)


def _stopped(stage: Stage) -> None:
    time.sleep(4)
    with stage.fault(), stage.trio.stands[1].standing_still():
        time.sleep(stage.value(6.5, 2.5, 15))
    time.sleep(6)


def _killed(stage: Stage) -> None:
    time.sleep(5)
    with stage.fault():
        stage.trio.stands[2].kill()
        time.sleep(stage.value(14, 8, 25))
        stage.trio.stands[2].start()
    time.sleep(6)


def _starved(stage: Stage) -> None:
    client = stage.one_of("produce_python", "produce")
    stage.worker(client, client_id="waiter", topic="starved", per_s=stage.number(20, 8, 30))
    time.sleep(8)
    with stage.fault(), stage.trio.stands[0].starved(stage.value(0.06, 0.03, 0.09)):
        time.sleep(stage.value(25, 15, 35))
    time.sleep(6)


def _lossy(stage: Stage) -> None:
    per_s = stage.number(40, 20, 60)
    stage.worker("produce", client_id="steady", topic="lossy", per_s=per_s, config={"linger.ms": 0})
    time.sleep(5)
    with stage.fault(), stage.trio.stands[2].losing(stage.switch, stage.value(0.03, 0.015, 0.06)):
        time.sleep(25)
    time.sleep(4)


def _narrow(stage: Stage) -> None:
    """A link of 20 kB/s, of a client that sends a little less.

    Each message has more bytes than the 4 kB that pass at once, and fills nine tenths of its time.
    """
    time.sleep(3)
    kbit_per_s, size = stage.number(160, 100, 240), stage.number(4500, 4200, 6000)
    with stage.fault():
        stage.jobs.shape(kbit_per_s)
        stage.finish(
            stage.worker(
                "produce_python",
                client_id="uploader",
                topic="narrow",
                seconds=stage.number(25, 15, 35),
                per_s=0.9 * kbit_per_s * 125 / size,
                size=size,
            )
        )
        stage.jobs.unshape()


def _advertised(stage: Stage) -> None:
    outside = ",".join(f"{one.machine.ip}:{OUTSIDE}" for one in stage.trio.stands)
    with stage.fault():
        child = stage.java(
            CONSUMER,
            "--bootstrap-server",
            outside,
            "--topic",
            "outside",
            "--command-property",
            "client.id=remote",
        )
        time.sleep(18)
        stage.end(child)


def _one_way(stage: Stage) -> None:
    with stage.fault():
        stage.finish(
            stage.worker(
                "produce_python",
                client_id="careless",
                topic="small",
                seconds=15,
                per_s=2,
                size=5000,
                config={"acks": 0, "enable_idempotence": False},
            )
        )


def _too_large(stage: Stage) -> None:
    with stage.fault():
        stage.finish(
            stage.worker(
                "produce_python",
                client_id="bulky",
                topic="tiny",
                seconds=stage.number(12, 6, 25),
                per_s=2,
                size=stage.number(9000, 3000, 30000),
                # Else the client gives up after the first.
                config={"enable_idempotence": False},
            )
        )


def _fenced(stage: Stage) -> None:
    with stage.fault():
        stage.finish(
            stage.worker(
                "fence", client_id="payer", topic="paid", seconds=12, transactional_id="payments"
            )
        )


def _static(stage: Stage) -> None:
    words = [
        "--bootstrap-server",
        stage.bootstrap,
        "--topic",
        "static",
        "--group-id",
        "static-readers",
        "--group-instance-id",
        "pod-0",
        "--session-timeout",
        "8000",
    ]
    stage.java(VERIFIABLE_CONSUMER, *words)
    time.sleep(8)
    with stage.fault():
        stage.java(VERIFIABLE_CONSUMER, *words)
        time.sleep(12)
    time.sleep(5)


def _deleted(stage: Stage) -> None:
    client = stage.one_of("produce_python", "produce")
    stage.worker(client, client_id="orphan", topic="doomed", per_s=stage.number(3, 1, 10))
    time.sleep(6)
    stage.tool(TOPICS, "--delete", "--topic", "doomed")
    with stage.fault():
        time.sleep(18)


def _misspelt(stage: Stage) -> None:
    with stage.fault():
        stage.java(
            CONSUMER,
            "--bootstrap-server",
            stage.bootstrap,
            "--topic",
            "paymnets",
            "--group",
            "typo",
        )
        time.sleep(22)


def _beyond(stage: Stage) -> None:
    with stage.fault():
        stage.finish(stage.worker("seek_beyond", client_id="lost", topic="short", seconds=15))


def _login(stage: Stage) -> str:
    return ",".join(f"{one.machine.ip}:{PORTS['SASL']}" for one in stage.trio.stands)


def _denied_setup(stage: Stage) -> None:
    stage.topic("open", 1)
    rule = ["--allow-principal", "User:boss", "--operation", "Read"]
    stage.tool(ACLS, "--add", "--group", "secret", *rule)


def _denied(stage: Stage) -> None:
    words = ["--bootstrap-server", _login(stage), "--topic", "open", "--group", "secret"]
    for each in (
        "client.id=intruder",
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        f'sasl.jaas.config={PLAIN} required username="alice" password="{PASSWORDS["alice"]}";',
    ):
        words += ["--command-property", each]
    with stage.fault():
        for _ in range(2):
            stage.finish(stage.java(CONSUMER, *words), 15)


def _mistyped(stage: Stage) -> None:
    config: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "bob",
        "sasl_plain_password": "wrong",
    }
    with stage.fault():
        stage.finish(
            stage.worker(
                "knock", client_id="guesser", bootstrap=_login(stage), seconds=14, config=config
            )
        )


def _idle(stage: Stage) -> None:
    """Something between forgets connections on which nothing is sent."""
    writers = [
        stage.worker("produce_twice", client_id=f"night-{n}", topic="nightly", silence_s=66 + n)
        for n in range(4)
    ]
    time.sleep(30)
    for node in stage.trio.stands:
        node.forget(stage.jobs.ip)
    for each in writers:
        stage.finish(each, 80)


def _http(stage: Stage) -> None:
    with stage.fault():
        stage.finish(stage.worker("speak_http", client_id="-", seconds=15))


def _few_replicas(stage: Stage) -> None:
    """The second replica of a topic that wants two is gone, and stays so."""
    time.sleep(4)
    with stage.fault(is_over=False):
        stage.trio.stands[2].kill()
        # A write before the leader knows that it is alone waits for longer than this takes.
        time.sleep(14)
        stage.finish(
            stage.worker("produce_python", client_id="strict", topic="pair", per_s=4, seconds=14)
        )


def _pair(stage: Stage) -> None:
    stage.tool(
        TOPICS,
        "--create",
        "--topic",
        "pair",
        "--replica-assignment",
        "1:3",
        "--config",
        "min.insync.replicas=2",
    )


def _quota_setup(stage: Stage) -> None:
    stage.topic("metered", 1)
    stage.tool(
        CONFIGS,
        "--alter",
        "--entity-type",
        "clients",
        "--entity-name",
        "meter",
        "--add-config",
        "producer_byte_rate=1500",
    )


def _quota(stage: Stage) -> None:
    with stage.fault():
        stage.finish(
            stage.worker(
                "produce_python",
                client_id="meter",
                topic="metered",
                seconds=stage.number(20, 10, 30),
                per_s=stage.number(8, 4, 15),
                size=stage.number(800, 600, 2000),
            )
        )


def _rebalances(stage: Stage) -> None:
    group: dict[str, Any] = {"topic": "restless", "group": "restless-group"}
    stage.worker("come_and_go", client_id="stayer", stay_s=90, away_s=0, **group)
    time.sleep(6)
    with stage.fault():
        stage.finish(
            stage.worker(
                "come_and_go",
                client_id="comer",
                **group,
                seconds=stage.number(26, 20, 40),
                stay_s=stage.number(2, 1, 4),
                away_s=stage.number(2, 1, 4),
            )
        )
    time.sleep(2)


def _metadata(stage: Stage) -> None:
    with stage.fault():
        stage.finish(
            stage.worker(
                "produce",
                client_id="curious",
                topic="known",
                seconds=36,
                per_s=1,
                config={"topic.metadata.refresh.interval.ms": stage.number(150, 100, 900)},
            )
        )


def _connections(stage: Stage) -> None:
    with stage.fault():
        stage.finish(stage.worker("ask_often", client_id="hasty", seconds=20))


def _old(stage: Stage) -> None:
    with stage.fault():
        stage.finish(stage.worker("fetch_old", client_id="museum", topic="known", seconds=15))


def _compacted(stage: Stage) -> None:
    with stage.fault():
        stage.finish(
            stage.worker(
                "produce",
                client_id="keyless",
                topic="compacted",
                seconds=20,
                per_s=4,
                keyless=True,
                config={"linger.ms": 0},
            )
        )


def _closing(stage: Stage) -> None:
    node = stage.trio.stands[0]
    stage.worker(
        "close_at_once", machine=node.machine, client_id="-", host=node.machine.ip, port=9192
    )
    time.sleep(1)
    with stage.fault():
        child = stage.worker(
            "produce",
            client_id="knocker",
            topic="known",
            seconds=15,
            bootstrap=f"{node.machine.ip}:9192",
        )
        stage.finish(child)


def _behind(stage: Stage) -> None:
    stage.worker(
        "consume_python",
        client_id="sloth",
        topic="backlog",
        group="slow-readers",
        at_once=10,
        work_s=stage.value(1.0, 0.5, 2.0),
        reset="earliest",
        config={"max_partition_fetch_bytes": 4000, "auto_commit_interval_ms": 1000},
    )
    time.sleep(5)
    with stage.fault():
        stage.finish(
            stage.worker(
                "produce",
                client_id="writer",
                topic="backlog",
                seconds=35,
                per_s=stage.number(60, 45, 120),
            )
        )


def _replicas(topic: str, *partitions: str, **config: str) -> Callable[[Stage], None]:
    """Create a topic whose replicas are on these nodes."""
    settings = [f"{name.replace('_', '.')}={value}" for name, value in config.items()]
    more = [word for each in settings for word in ("--config", each)]
    where = ["--replica-assignment", ",".join(partitions)]

    def create(stage: Stage) -> None:
        stage.tool(TOPICS, "--create", "--topic", topic, *where, *more)

    return create


def _producer(stage: Stage, client_id: str, topic: str, seconds: int, per_s: int) -> None:
    """Start a Java producer; what it says of its end is not waited for."""
    words = ["--topic", topic, "--num-records", str(seconds * per_s), "--record-size", "500"]
    words += [
        "--throughput",
        str(per_s),
        "--producer-props",
        f"bootstrap.servers={stage.bootstrap}",
    ]
    stage.java(PERFORMANCE, *words, "acks=all", "linger.ms=0", f"client.id={client_id}")


def _slow_follower(stage: Stage) -> None:
    """Of the follower's disks, the one that holds the topic is slow."""
    _producer(stage, "patient", "copied", 60, stage.number(20, 8, 40))
    time.sleep(10)
    with stage.fault(), stage.trio.stands[2].slow_disk(stage.number(60, 30, 200), "copied-"):
        time.sleep(stage.value(25, 15, 35))
    time.sleep(6)


def _slow_disk(stage: Stage) -> None:
    stage.worker(
        "produce_python", client_id="patient", topic="stored", per_s=stage.number(12, 6, 30)
    )
    time.sleep(9)
    with stage.fault(), stage.trio.stands[1].slow_disk(stage.number(120, 50, 300), ".log"):
        time.sleep(stage.value(25, 15, 35))
    time.sleep(6)


def _all_disks(stage: Stage) -> None:
    stage.worker("produce_python", client_id="patient", topic="everywhere", per_s=12)
    time.sleep(12)
    with contextlib.ExitStack() as together, stage.fault():
        for stand in stage.trio.stands:
            together.enter_context(stand.slow_disk(150, ".log"))
        time.sleep(25)
    time.sleep(8)


def _all_starved(stage: Stage) -> None:
    stage.worker(
        "produce_python", client_id="waiter", topic="hungry", per_s=stage.number(15, 8, 25)
    )
    share = stage.value(0.06, 0.03, 0.09)
    time.sleep(14)
    with contextlib.ExitStack() as together, stage.fault():
        for stand in stage.trio.stands:
            together.enter_context(stand.starved(share))
        time.sleep(25)
    time.sleep(8)


def _narrow_link(stage: Stage) -> None:
    """Batches of records of librdkafka, and a link that is busy for most of the time."""
    _producer(stage, "office", "wide", 40, 10)
    time.sleep(4)
    with stage.fault():
        stage.jobs.shape(stage.number(600, 400, 900))
        linger_ms = stage.number(400, 100, 800)
        config: dict[str, Any] = {"linger.ms": linger_ms, "batch.num.messages": 100}
        child = stage.worker(
            "produce",
            client_id="branch",
            topic="wide",
            seconds=22,
            per_s=30,
            size=stage.number(1500, 1000, 2000),
            config=config,
        )
        stage.finish(child)
        stage.jobs.unshape()


def _narrow_broker(stage: Stage) -> None:
    """A broker whose own line is slow: what it answers takes long to come.

    It sends some 36 kB/s, so a faster line than the usual one would be felt for moments only.
    """
    _producer(stage, "filler", "broad", 50, 25)
    group: dict[str, Any] = {"topic": "broad", "group": "readers"}
    stage.worker("consume_python", client_id="reader", **group)
    time.sleep(9)
    with stage.fault():
        stage.trio.stands[2].machine.shape(stage.number(320, 200, 320))
        time.sleep(stage.value(25, 15, 35))
        stage.trio.stands[2].machine.unshape()
    time.sleep(5)


def _corrupt(stage: Stage) -> None:
    with stage.fault():
        stage.finish(stage.worker("corrupt", client_id="handmade", topic="bytes", seconds=15))


def _bad_memory(stage: Stage) -> None:
    with stage.fault():
        child = stage.worker(
            "corrupt_python",
            client_id="forgetful",
            topic="bits",
            seconds=20,
            per_s=3,
            config={"enable_idempotence": False},
        )
        stage.finish(child)


def _skipped(stage: Stage) -> None:
    _producer(stage, "orderly", "counted", 40, 10)
    time.sleep(6)
    with stage.fault():
        told = {"every": stage.number(10, 4, 16), "hole": stage.number(5, 1, 900)}
        worker = stage.worker(
            "skip", client_id="absent-minded", topic="counted", seconds=20, **told
        )
        stage.finish(worker)


def _lost_batches(stage: Stage) -> None:
    _producer(stage, "direct", "numbered", 45, 10)
    proxy = {"host": "127.0.0.1", "port": OUTSIDE, "to": (stage.trio.stands[0].machine.ip, OUTSIDE)}
    stage.worker("lose", client_id="-", every=stage.number(50, 30, 70), **proxy)
    time.sleep(6)
    config = {"enable.idempotence": True, "linger.ms": 0, "request.timeout.ms": 2000}
    with stage.fault():
        child = stage.worker(
            "produce",
            client_id="unlucky",
            topic="numbered",
            bootstrap=f"127.0.0.1:{OUTSIDE}",
            seconds=25,
            per_s=stage.number(25, 20, 40),
            config=config,
        )
        stage.finish(child)


def _late_follower(stage: Stage) -> None:
    """The follower stands still for longer than the producer waits for an answer."""
    config: dict[str, Any] = {
        "enable_idempotence": False,
        "request_timeout_ms": 1500,
        "linger_ms": 0,
    }
    words: dict[str, Any] = {"client_id": "careful", "topic": "billed", "per_s": 2}
    stage.worker("produce_python", **words, config=config)
    time.sleep(5)
    with stage.fault(), stage.trio.stands[2].standing_still():
        time.sleep(5)
    time.sleep(8)


def _impatient(stage: Stage) -> None:
    """The leader's disk takes longer than the producer waits for an answer."""
    config: dict[str, Any] = {
        "enable.idempotence": False,
        "request.timeout.ms": 1000,
        "socket.timeout.ms": 1000,
        "linger.ms": 0,
        "max.in.flight": 1,
        # Else records are sent again in larger batches, which only their contents could tell.
        "batch.num.messages": 1,
    }
    stage.worker("produce", client_id="hurried", topic="sold", per_s=1, config=config)
    time.sleep(6)
    with stage.fault(), stage.trio.stands[0].slow_disk(1600, "sold-"):
        time.sleep(7)
    time.sleep(8)


def _post(stage: Stage) -> None:
    inside = f"{stage.trio.stands[1].machine.ip}:{PORTS['INTERNAL']}"
    words: dict[str, Any] = {"method": "POST", "content": '{"records": [{"value": 1}]}'}
    with stage.fault():
        child = stage.worker(
            "speak_http", client_id="-", bootstrap=inside, seconds=12, pause_s=0.7, **words
        )
        stage.finish(child)


def _web_server(stage: Stage, start_client: Callable[[str], subprocess.Popen[str]]) -> None:
    node = stage.trio.stands[0]
    web: dict[str, Any] = {
        "machine": node.machine,
        "client_id": "-",
        "host": node.machine.ip,
        "port": 8080,
    }
    stage.worker("answer_http", **web)
    time.sleep(1)
    with stage.fault():
        child = start_client(f"{node.machine.ip}:8080")
        time.sleep(16)
        stage.end(child)


def _to_web(stage: Stage) -> None:
    told: dict[str, Any] = {"client_id": "astray", "topic": "known", "seconds": 30}
    _web_server(stage, lambda where: stage.worker("produce", bootstrap=where, **told))


def _java_to_web(stage: Stage) -> None:
    words = ["--topic", "known", "--group", "strays"]
    _web_server(stage, lambda where: stage.java(CONSUMER, "--bootstrap-server", where, *words))


def _reset(stage: Stage) -> None:
    node = stage.trio.stands[1]
    where: dict[str, Any] = {
        "machine": node.machine,
        "host": node.machine.ip,
        "port": 9193,
        "is_reset": True,
    }
    stage.worker("close_at_once", client_id="-", **where)
    time.sleep(1)
    with stage.fault():
        words = ["--topic", "known", "--bootstrap-server", f"{node.machine.ip}:9193"]
        child = stage.java(CONSUMER, *words)
        time.sleep(18)
        stage.end(child)


def _kerberos(stage: Stage, **job: Any) -> None:
    with stage.fault():
        where = _login(stage).split(",")[0]
        told: dict[str, Any] = {"client_id": "realm", "bootstrap": where, "seconds": 14}
        stage.finish(stage.worker("speak_kerberos", **told, **job))


def _kerberos_asked(stage: Stage) -> None:
    _kerberos(stage, asks_first=True)


@contextlib.contextmanager
def _certificate(stage: Stage, version: str, *, expired: bool) -> Iterator[tuple[str, Path]]:
    """Let something end TLS on the second node; yield its address and its authority."""
    authority = Authority(stage.folder / f"authority-{stage.trial}")
    node = stage.trio.stands[1]
    keystore = authority.keystore("front", expired=expired)
    told: dict[str, Any] = {"keystore": str(keystore), "version": version}
    where: dict[str, Any] = {"machine": node.machine, "host": node.machine.ip, "port": 9194}
    stage.worker("answer_tls", client_id="-", **where, **told)
    time.sleep(1)
    with stage.fault():
        yield f"{node.machine.ip}:9194", authority.certificate


def _expired(stage: Stage) -> None:
    with _certificate(stage, "TLSv1_2", expired=True) as (where, trusted):
        words = ["--topic", "known", "--bootstrap-server", where]
        for each in (
            "security.protocol=SSL",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={trusted}",
            "ssl.endpoint.identification.algorithm=",
        ):
            words += ["--command-property", each]
        child = stage.java(CONSUMER, *words)
        time.sleep(16)
        stage.end(child)


def _unknown_authority(stage: Stage) -> None:
    with _certificate(stage, "TLSv1_3", expired=False) as (where, _):
        config: dict[str, Any] = {"security.protocol": "ssl"}
        told: dict[str, Any] = {
            "client_id": "doubter",
            "topic": "known",
            "seconds": 15,
            "config": config,
        }
        stage.finish(stage.worker("produce", bootstrap=where, **told))


def _is(*findings: str, timed: bool = True, **concerns: str) -> Expected:
    return Expected(findings, concerns, is_timed=timed)


FAULTS = (
    Trial(
        "stopped",
        "broker 2 is stopped (SIGSTOP) for 6.5 s",
        _stopped,
        expected=Expected(("broker_stood_still",), _node(2)),
    ),
    Trial(
        "killed",
        "broker 3 is killed and started 14 s later",
        _killed,
        expected=Expected(("broker_away",), _node(3)),
    ),
    Trial(
        "starved",
        "broker 1 has 6 % of a processor for 25 s",
        _starved,
        _topic("starved"),
        Expected(("slow_broker", "broker_slowed", "broker_stood_still"), _node(1)),
    ),
    Trial(
        "lossy",
        "3 % of the packets from and to broker 3 are lost",
        _lossy,
        _topic("lossy"),
        Expected(("packets_lost", "slow_network"), _node(3)),
    ),
    Trial(
        "narrow",
        "a producer's link has 20 kB/s",
        _narrow,
        _topic("narrow"),
        _is("narrow_link", client_id="uploader"),
    ),
    Trial(
        "advertised",
        "a listener is advertised as localhost",
        _advertised,
        _topic("outside"),
        _is("wrong_listener", client_ip="10.88.0.31"),
        is_kept=True,
    ),
    Trial(
        "one-way",
        "records that are too large, acks=0",
        _one_way,
        _topic("small", 1, max_message_bytes="1000"),
        _is("closed_after_produce", client_id="careless"),
        is_kept=True,
    ),
    Trial(
        "too-large",
        "records that are too large, acks=all",
        _too_large,
        _topic("tiny", 1, max_message_bytes="2000"),
        _is("too_large", client_id="bulky", topic="tiny"),
    ),
    Trial(
        "fenced",
        "two producers with one transactional id",
        _fenced,
        _topic("paid", 1),
        _is("fenced", transactional_id="payments"),
        is_kept=True,
    ),
    Trial(
        "static",
        "two members with one group.instance.id",
        _static,
        _topic("static"),
        _is("fenced", timed=False, group_id="static-readers"),
        is_kept=True,
    ),
    Trial(
        "deleted",
        "a topic is deleted while it is produced to",
        _deleted,
        _topic("doomed"),
        _is("unknown_topic", client_id="orphan", topic="doomed"),
        is_kept=True,
    ),
    Trial(
        "misspelt",
        "a consumer of a topic that does not exist",
        _misspelt,
        expected=_is("unknown_topic", topic="paymnets"),
    ),
    Trial(
        "beyond",
        "fetches from offsets that are not there",
        _beyond,
        _topic("short", 1),
        _is("offset_out_of_range", client_id="lost", topic="short"),
    ),
    Trial(
        "denied",
        "a group that a consumer may not join",
        _denied,
        _denied_setup,
        _is("not_authorized", client_id="intruder", group_id="secret"),
        is_kept=True,
    ),
    Trial(
        "mistyped",
        "a wrong password",
        _mistyped,
        expected=_is("login_failures", timed=False, client_id="guesser"),
    ),
    Trial(
        "idle-cut",
        "connections are forgotten while nothing is sent on them",
        _idle,
        _topic("nightly", 1),
        _is("idle_cut", timed=False, client_ip="10.88.0.31"),
        is_kept=True,
    ),
    Trial("http", "HTTP to a broker's port", _http, expected=_is("wrong_protocol")),
    Trial(
        "few-replicas",
        "the second of two replicas is killed",
        _few_replicas,
        _pair,
        Expected(("broker_away", "not_enough_replicas")),
    ),
    Trial(
        "quota",
        "a producer above its quota",
        _quota,
        _quota_setup,
        _is("throttled", client_id="meter"),
    ),
    Trial(
        "rebalances",
        "a member joins and leaves every 4 s",
        _rebalances,
        _topic("restless"),
        _is("rebalances", group_id="restless-group"),
    ),
    Trial(
        "metadata",
        "a producer asks for metadata every 150 ms",
        _metadata,
        _topic("known", 1),
        _is("metadata_storm", client_id="curious"),
    ),
    Trial(
        "connections",
        "a client connects for each question",
        _connections,
        expected=_is("connection_storm", client_id="hasty"),
    ),
    Trial(
        "old",
        "Fetch v2 to a broker that does not know it",
        _old,
        expected=_is("refused_versions", client_id="museum"),
    ),
    Trial(
        "compacted",
        "records without keys into a compacted topic",
        _compacted,
        _topic("compacted", 1, cleanup_policy="compact"),
        _is("refused_work", "error_storm", client_id="keyless", topic="compacted"),
    ),
    Trial(
        "closing",
        "a server that closes after ApiVersions",
        _closing,
        expected=_is("closed_at_api_versions", client_ip="10.88.0.31"),
        is_kept=True,
    ),
    Trial(
        "behind",
        "a consumer slower than its producer",
        _behind,
        _topic("backlog", 1),
        _is("growing_lag", group_id="slow-readers", topic="backlog"),
    ),
    Trial(
        "slow-follower",
        "the disk of a follower takes 60 ms for a write",
        _slow_follower,
        _replicas("copied", "1:3", "2:3"),
        Expected(("slow_follower",), {"client_ip": NODE.format(3)}),
    ),
    Trial(
        "slow-disk",
        "the disk of broker 2 takes 120 ms for a write",
        _slow_disk,
        _topic("stored"),
        Expected(("slow_follower",), {"client_ip": NODE.format(2)}),
    ),
    Trial(
        "all-disks",
        "the disks of all brokers take 150 ms for a write",
        _all_disks,
        _topic("everywhere", 1),
        Expected(("broker_slowed",)),
    ),
    Trial(
        "all-starved",
        "all brokers have 6 % of a processor for 25 s",
        _all_starved,
        _topic("hungry"),
        Expected(("broker_slowed", "broker_stood_still", "slow_broker")),
    ),
    Trial(
        "narrow-link",
        "a client's link has 75 kB/s, which it fills",
        _narrow_link,
        _topic("wide"),
        _is("narrow_link", client_id="branch"),
    ),
    Trial(
        "narrow-broker",
        "the link of broker 3 has 40 kB/s",
        _narrow_broker,
        _topic("broad"),
        Expected(("narrow_link",), _node(3)),
    ),
    Trial(
        "corrupt",
        "a client made by hand with a wrong CRC",
        _corrupt,
        _replicas("bytes", "1:2"),
        _is("wrong_crc", client_id="handmade"),
    ),
    Trial(
        "bad-memory",
        "a client whose memory loses a bit of each third batch",
        _bad_memory,
        _topic("bits", 1),
        _is("wrong_crc", client_id="forgetful"),
    ),
    Trial(
        "skipped",
        "an idempotent producer leaves sequence numbers out",
        _skipped,
        _replicas("counted", "1:2"),
        _is("refused_sequences", client_id="absent-minded", topic="counted"),
    ),
    Trial(
        "lost-batches",
        "a proxy loses a batch of an idempotent producer with others behind it",
        _lost_batches,
        _replicas("numbered", "1:2"),
        # librdkafka gives up at once when the first of them is refused.
        _is("refused_sequences", timed=False, client_id="unlucky", topic="numbered"),
    ),
    Trial(
        "late-follower",
        "a follower stands still, and a producer without idempotence sends again",
        _late_follower,
        _replicas("billed", "1:3"),
        Expected(("broker_stood_still",), _node(3), also=("written_twice",)),
    ),
    Trial(
        "impatient",
        "a disk slower than a producer without idempotence waits",
        _impatient,
        _replicas("sold", "1:2"),
        Expected(
            ("unanswered", "slow_broker", "broker_stood_still"), _node(1), also=("written_twice",)
        ),
    ),
    Trial(
        "http-post",
        "HTTP with a body to a port between brokers",
        _post,
        expected=_is("wrong_protocol", **_node(2)),
    ),
    Trial(
        "web",
        "a web server's address in bootstrap.servers",
        _to_web,
        expected=_is("wrong_protocol", client_id="astray", **_node(1)),
    ),
    Trial(
        "java-web",
        "a web server's address in bootstrap.servers, of a Java client",
        _java_to_web,
        expected=_is("wrong_protocol", timed=False, **_node(1)),
    ),
    Trial(
        "reset",
        "a server that resets after ApiVersions",
        _reset,
        expected=_is("closed_at_api_versions", **_node(2)),
    ),
    Trial(
        "kerberos",
        "tokens of GSSAPI to a port that has another login",
        _kerberos,
        expected=_is("wrong_protocol", client_ip="10.88.0.31"),
    ),
    Trial(
        "kerberos-asked",
        "a client that asks for GSSAPI, which is not allowed",
        _kerberos_asked,
        expected=_is("login_failures", client_id="realm"),
    ),
    Trial(
        "expired",
        "an expired certificate (TLS 1.2)",
        _expired,
        expected=_is("tls_failed", timed=False, **_node(2)),
    ),
    Trial(
        "unknown-authority",
        "a certificate of an unknown authority (TLS 1.3)",
        _unknown_authority,
        expected=_is("tls_failed", **_node(2)),
    ),
)
