"""Every codec from every client, with records of every shape, read back byte for byte."""

import base64
from typing import Any

from lab.scenario import PERFORMANCE, PRODUCER, Lab, Scenario

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Who writes a topic, and who reads it: never the same library.
READERS = {"confluent": "kafka_python", "kafka_python": "aiokafka", "aiokafka": "java"}
SETTINGS = {
    "confluent": ("compression.type", {"linger.ms": 100}),
    "kafka_python": ("compression_type", {"linger_ms": 100}),
    "aiokafka": ("compression_type", {"linger_ms": 100}),
}
# Clients that refuse to send a record with neither a key nor a value, or a header of null.
NEITHER_REFUSED = frozenset({"kafka_python", "aiokafka"})
NULL_HEADERS_REFUSED = frozenset({"kafka_python"})


def setup(lab: Lab) -> None:
    """A topic for each client, with a partition for each codec."""
    names = ("confluent", "kafka_python", "aiokafka", "java")
    topics = {f"codecs-{name}": {"partitions": len(CODECS)} for name in names}
    lab.create_topics(
        topics | {"codecs-console": {"partitions": 1}, "codecs-perf": {"partitions": 1}}
    )


def run(lab: Lab) -> None:
    """Write with each codec, then read all of it once."""
    for client, (setting, config) in SETTINGS.items():
        for part, codec in enumerate(CODECS):
            # aiokafka and kafka-python call no codec None.
            chosen = None if codec == "none" and client != "confluent" else codec
            lab.produce(
                client,
                [_send(client, part, codec)],
                client_id=f"{client}-{codec}",
                config=config | {setting: chosen},
            )
            lab.clients[-1]["codec"] = codec
    steps: list[dict[str, Any]] = [
        {
            "op": "produce",
            "client_id": f"java-{codec}",
            "codec": codec,
            "config": {"compression.type": codec, "linger.ms": 100},
            "sends": [_send("java", part, codec)],
        }
        for part, codec in enumerate(CODECS)
    ]
    lab.java_worker([*steps, {"op": "consume", **_reading("aiokafka", "java-reader")}])
    _tools(lab)
    for written in ("confluent", "kafka_python"):
        lab.worker(READERS[written], "consume", **_reading(written, f"{written}-reader"))
    lab.worker("confluent", "consume", **_reading("java", "confluent-reader"))
    for topic, count in (("codecs-console", 15), ("codecs-perf", 30)):
        lab.consume("confluent", [[topic, 0]], count, keep=True, client_id=f"{topic}-reader")


def _reading(written: str, client_id: str) -> dict[str, Any]:
    return {
        "assign": [[f"codecs-{written}", part] for part in range(len(CODECS))],
        "count": len(_records(written, "none")) * len(CODECS),
        "keep": True,
        "client_id": client_id,
    }


def _tools(lab: Lab) -> None:
    """Kafka's console producer and its performance tool, with each codec."""
    for codec in CODECS:
        lines = "".join(f"{codec} line {number} {'=' * 40}\n" for number in range(3))
        client_id = f"console-{codec}"
        words = ["--topic", "codecs-console", "--compression-codec", codec]
        words += ["--command-property", f"client.id={client_id}"]
        lab.tool(PRODUCER, *words, "--command-property", "linger.ms=100", stdin=lines)
        lab.java_client("produce", client_id, codec=codec, sent={"codecs-console": {"*": 3}})
        client_id = f"perf-{codec}"
        words = ["--topic", "codecs-perf", "--num-records", "6", "--record-size", "120"]
        words += ["--throughput", "-1"]
        for setting in (f"compression.type={codec}", "linger.ms=100", f"client.id={client_id}"):
            words += ["--command-property", setting]
        out, _ = lab.tool(PERFORMANCE, *words)
        sent = int(out.strip().splitlines()[-1].split()[0])
        lab.java_client("produce", client_id, codec=codec, sent={"codecs-perf": {"*": sent}})


def _send(client: str, part: int, codec: str) -> dict[str, Any]:
    return {"topic": f"codecs-{client}", "partition": part, "records": _records(client, codec)}


def _records(client: str, codec: str) -> list[dict[str, Any]]:
    neither, nulls = client not in NEITHER_REFUSED, client not in NULL_HEADERS_REFUSED
    found = [one for one in shapes(codec) if neither or (one["key"], one["value"]) != (None, None)]
    for one in found:
        one["headers"] = [item for item in one["headers"] if nulls or item[1] is not None]
    return found


def shapes(label: str) -> list[dict[str, Any]]:
    """A record of every shape: nulls, empties, headers, bytes that are no text, a long value."""
    text = f"{label}: a value that repeats itself, ".encode()
    every_byte = bytes(range(256))
    found: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"key", b"value", []),
        (None, b"no key", []),
        (b"deleted", None, []),
        (None, None, []),
        (b"", b"", []),
        (b"headers", b"two", [("name", b"text"), ("trace", every_byte[:16])]),
        (b"headers", b"null and empty", [("null", None), ("empty", b""), ("", b"no name")]),
        (b"headers", None, [("same", b"1"), ("same", b"2"), ("same", None)]),
        ("schlüssel".encode(), "größe 😀".encode(), [("größe", "ß".encode())]),
        (every_byte[:32], every_byte, []),
        (b"long", text * 60, []),
        (b"last", text, [("codec", label.encode())]),
    ]
    return [
        {
            "key": _packed(key),
            "value": _packed(value),
            "headers": [[name, _packed(content)] for name, content in headers],
        }
        for key, value, headers in found
    ]


def _packed(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


SCENARIO = Scenario(
    name="codecs",
    summary="Every codec from five clients, in records with null and empty keys, values and "
    "header values, each topic read back by another client.",
    setup=setup,
    run=run,
)
