"""Workloads in which nothing is wrong, so that nothing is to be found."""

import shutil
import time
from collections.abc import Callable

from lab.scenario import CONFIGS, CONSUMER, GROUPS, PERFORMANCE, TOPICS
from lab.trial import Stage, Trial

SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
WORD_COUNT = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
STANDALONE = "org.apache.kafka.connect.cli.ConnectStandalone"
DISTRIBUTED = "org.apache.kafka.connect.cli.ConnectDistributed"
MIRROR = "org.apache.kafka.connect.mirror.MirrorMaker"
JSON = "org.apache.kafka.connect.json.JsonConverter"


def _perf(stage: Stage, topic: str, *more: str, seconds: int = 20, per_s: int = 20) -> list[str]:
    records = ["--num-records", str(seconds * per_s), "--throughput", str(per_s)]
    props = [f"bootstrap.servers={stage.bootstrap}", f"client.id=perf-{topic}", "acks=all"]
    return ["--topic", topic, "--record-size", "300", *records, "--producer-props", *props, *more]


def _consumer(stage: Stage, topic: str, group: str, *props: str) -> list[str]:
    words = ["--bootstrap-server", stage.bootstrap, "--topic", topic, "--group", group]
    for each in props:
        words += ["--command-property", each]
    return words


def _two_members(stage: Stage, topic: str, *props: str) -> None:
    first = stage.java(CONSUMER, *_consumer(stage, topic, f"{topic}-readers", *props))
    producer = stage.java(PERFORMANCE, *_perf(stage, topic))
    time.sleep(9)
    second = stage.java(CONSUMER, *_consumer(stage, topic, f"{topic}-readers", *props))
    stage.finish(producer)
    stage.end(second)
    time.sleep(3)
    stage.end(first)


def _classic(stage: Stage) -> None:
    _two_members(stage, "classic")


def _next(stage: Stage) -> None:
    _two_members(stage, "next", "group.protocol=consumer")


def _streams_topics(stage: Stage) -> None:
    stage.topic("streams-plaintext-input")
    stage.topic("streams-wordcount-output")


def _streams(stage: Stage) -> None:
    state = stage.folder / "streams-state"
    # What is left of another cluster is ahead of this one's topics.
    shutil.rmtree(state, ignore_errors=True)
    given = stage.file(
        "streams.properties", [f"bootstrap.servers={stage.bootstrap}", f"state.dir={state}"]
    )
    stage.java(WORD_COUNT, str(given))
    time.sleep(10)
    stage.finish(
        stage.worker(
            "produce", client_id="typist", topic="streams-plaintext-input", seconds=15, per_s=10
        )
    )
    time.sleep(5)


def _transactions(stage: Stage) -> None:
    stage.java(CONSUMER, *_consumer(stage, "ledger", "auditors", "isolation.level=read_committed"))
    words = _perf(stage, "ledger")
    words += ["--transactional-id", "ledger-writer", "--transaction-duration-ms", "1000"]
    stage.finish(stage.java(PERFORMANCE, *words))
    time.sleep(2)


def _connect_settings(stage: Stage) -> list[str]:
    converters = [f"{side}.converter={JSON}" for side in ("key", "value")]
    return [
        f"bootstrap.servers={stage.bootstrap}",
        *converters,
        "key.converter.schemas.enable=false",
        "value.converter.schemas.enable=false",
        "offset.flush.interval.ms=5000",
        "plugin.discovery=service_load",
    ]


def _standalone(stage: Stage) -> None:
    source = stage.file("source.txt", [f"line {number}" for number in range(50)])
    worker = stage.file(
        "standalone.properties",
        [*_connect_settings(stage), f"offset.storage.file.filename={source.with_name('offsets')}"],
    )
    read = stage.file(
        "source.properties",
        [
            "name=local-file-source",
            "connector.class=org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max=1",
            f"file={source}",
            "topic=lines",
        ],
    )
    write = stage.file(
        "sink.properties",
        [
            "name=local-file-sink",
            "connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector",
            "tasks.max=1",
            f"file={source.with_name('sink.txt')}",
            "topics=lines",
        ],
    )
    stage.java(STANDALONE, str(worker), str(read), str(write))
    time.sleep(30)


def _distributed(stage: Stage) -> None:
    for number in (1, 2):
        worker = stage.file(
            f"distributed-{number}.properties",
            [
                *_connect_settings(stage),
                "group.id=connect-cluster",
                "offset.storage.topic=connect-offsets",
                "offset.storage.replication.factor=3",
                "offset.storage.partitions=3",
                "config.storage.topic=connect-configs",
                "config.storage.replication.factor=3",
                "status.storage.topic=connect-status",
                "status.storage.replication.factor=3",
                "status.storage.partitions=2",
                f"listeners=http://127.0.0.1:{8080 + number}",
            ],
        )
        stage.java(DISTRIBUTED, str(worker))
    source = stage.file("distributed.txt", [f"line {number}" for number in range(50)])
    for kind in ("Source", "Sink"):
        name = f"file-{kind.lower()}"
        topic = "topics" if kind == "Sink" else "topic"
        stage.post(
            8081,
            "/connectors",
            {
                "name": name,
                "config": {
                    "connector.class": f"org.apache.kafka.connect.file.FileStream{kind}Connector",
                    "tasks.max": "1",
                    topic: "dlines",
                    "file": str(source if kind == "Source" else source.with_name("dsink.txt")),
                },
            },
        )
        time.sleep(3)
    time.sleep(10)


def _tools(stage: Stage) -> None:
    stage.topic("by-hand", partitions=2)
    stage.tool(TOPICS, "--list")
    stage.tool(TOPICS, "--describe", "--topic", "by-hand")
    stage.tool(TOPICS, "--alter", "--topic", "by-hand", "--partitions", "4")
    entity = ("--entity-type", "topics", "--entity-name", "by-hand")
    stage.tool(CONFIGS, "--alter", *entity, "--add-config", "retention.ms=100000")
    stage.tool(CONFIGS, "--describe", *entity)
    stage.tool(GROUPS, "--list")
    stage.tool(GROUPS, "--describe", "--all-groups")
    stage.tool(TOPICS, "--delete", "--topic", "by-hand")


def _idle(stage: Stage) -> None:
    stage.java(CONSUMER, *_consumer(stage, "quiet", "quiet-readers"))
    time.sleep(35)


def _start_up(stage: Stage) -> None:
    stage.start()
    time.sleep(15)


def _restart(stage: Stage) -> None:
    node = stage.trio.stands[1]
    time.sleep(3)
    node.stop()
    time.sleep(6)
    node.start()
    time.sleep(12)


def _catch_up_filled(stage: Stage) -> None:
    stage.topic("history")
    stage.finish(
        stage.worker(
            "consume_python",
            client_id="historian",
            topic="history",
            group="history-readers",
            seconds=4,
            reset="earliest",
        )
    )
    stage.finish(stage.java(PERFORMANCE, *_perf(stage, "history", seconds=5, per_s=3000)))


def _catch_up(stage: Stage) -> None:
    stage.worker("produce", client_id="history-writer", topic="history", per_s=10)
    stage.worker(
        "consume_python",
        client_id="historian",
        topic="history",
        group="history-readers",
        reset="earliest",
    )
    time.sleep(25)


def _mirror(stage: Stage) -> None:
    given = stage.file(
        "mm2.properties",
        [
            "clusters=here, there",
            f"here.bootstrap.servers={stage.bootstrap}",
            f"there.bootstrap.servers={stage.bootstrap}",
            "here->there.enabled=true",
            "here->there.topics=mirrored",
            "there->here.enabled=false",
            "replication.factor=3",
            "sync.topic.acls.enabled=false",
            "emit.heartbeats.interval.seconds=5",
            *(f"{name}.storage.replication.factor=3" for name in ("offset", "status", "config")),
            "dedicated.mode.enable.internal.rest=false",
        ],
    )
    stage.java(MIRROR, str(given))
    stage.finish(stage.worker("produce", client_id="source", topic="mirrored", seconds=40, per_s=5))


def _share(stage: Stage) -> None:
    for _ in range(2):
        stage.java(
            SHARE_CONSUMER,
            "--bootstrap-server",
            stage.bootstrap,
            "--topic",
            "tasks",
            "--group",
            "task-workers",
        )
    stage.finish(stage.java(PERFORMANCE, *_perf(stage, "tasks")))
    time.sleep(3)


def _one_a_second(stage: Stage) -> None:
    stage.finish(
        stage.worker(
            "produce",
            client_id="clock",
            topic="ticks",
            seconds=35,
            per_s=1,
            config={"linger.ms": 0},
        )
    )


def _topic(name: str, partitions: int = 3) -> Callable[[Stage], None]:
    return lambda stage: stage.topic(name, partitions)


HEALTHY = (
    Trial("start-up", "a cluster starts", _start_up, is_cold=True),
    Trial("java-classic", "two Java consumers, one comes and goes", _classic, _topic("classic")),
    Trial("java-next", "the same by the newer protocol (KIP-848)", _next, _topic("next")),
    Trial("streams", "Kafka Streams counts words", _streams, _streams_topics),
    Trial("transactions", "a Java producer's transactions", _transactions, _topic("ledger")),
    Trial("connect-standalone", "Connect copies a file, alone", _standalone, _topic("lines")),
    Trial(
        "connect-distributed",
        "two workers of Connect get two connectors",
        _distributed,
        _topic("dlines"),
    ),
    Trial("tools", "the command-line tools", _tools),
    Trial("idle", "a consumer of a topic into which nothing is written", _idle, _topic("quiet")),
    Trial("restart", "a broker is restarted as it should be", _restart),
    Trial(
        "catch-up",
        "a consumer comes back and reads what it has missed",
        _catch_up,
        _catch_up_filled,
    ),
    Trial("mirror", "MirrorMaker 2 copies a topic", _mirror, _topic("mirrored")),
    Trial("share", "two members of a share group", _share, _topic("tasks")),
    Trial("one-a-second", "a request a second", _one_a_second, _topic("ticks", 1)),
)
