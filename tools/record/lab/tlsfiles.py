"""What is kept beside a capture of TLS: its secrets, and what tshark reads with them."""

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from lab import tshark
from lab.errors import RecorderError
from lab.requestlog import Exchange
from lab.sniffer import version

BROKER = "broker.keys"


def add_secrets(out: Path, name: str, work: Path, log: Iterable[Exchange]) -> None:
    """Keep the secrets, and what tshark reads; stop where the broker's log says something else.

    The broker's agent writes the secrets of nearly all connections, the clients those of their own.
    """
    truth = json.loads((out / f"{name}.truth.json").read_text())
    for old in out.glob(f"{name}.*keys"):
        old.unlink()
    keylog = out / f"{name}.keys"
    of_broker = work / "broker" / BROKER
    # There is none where no connection came so far as to have secrets.
    lines = of_broker.read_text().splitlines() if of_broker.exists() else []
    for own in sorted(work.glob("*.keys")):
        shutil.copyfile(own, out / f"{name}.{own.name}")
        lines += [line for line in own.read_text().splitlines() if not line.startswith("#")]
    once = {line.upper(): line for line in lines}
    keylog.write_text("".join(f"{line}\n" for line in once.values()))
    found = write_reading(out, name, out / truth["capture"], keylog, truth["ports"].values())
    if truth.get("whole", True):
        _compare(log, found, all_logged="authenticated_requests" not in truth)


def write_reading(
    out: Path, name: str, capture: Path, keylog: Path, ports: Iterable[int]
) -> tshark.Reading:
    """Write down what tshark reads in a capture, and return it."""
    found = tshark.read(capture, keylog, list(ports))
    lines = (json.dumps(one.told()) for one in found.connections)
    heads = {"program": version("tshark"), "requests": tshark.by_version(found.requests)}
    head = json.dumps(heads).removesuffix("}")
    text = head + ', "connections": [\n' + ",\n".join(lines) + "\n]}\n"
    (out / f"{name}.tshark.json").write_text(text)
    (out / f"{name}.tshark.tsv").write_text(tshark.lines(found.requests))
    return found


def _compare(log: Iterable[Exchange], found: tshark.Reading, *, all_logged: bool) -> None:
    """Every request of the broker's log is one of tshark's, and the other way round if all are.

    The log has nothing of what comes before a client with SASL is let in, nor of what a client asks
    before it learns that its handshake failed. tshark does not find the secrets of some resumed
    sessions.
    """
    answered = [one for one in found.requests if one.response_bytes is not None]
    read, certain = (
        Counter((one.client, one.correlation_id, one.api_key, one.api_version) for one in requests)
        for requests in (found.requests, answered)
    )
    clients = {client for client, *_ in read}
    closed = {one.client for one in found.connections if one.resumed} - clients
    heads = ((one["client"], one["requestHeader"]) for one in log)
    logged = Counter(
        (client, *(head[key] for key in ("correlationId", "requestApiKey", "requestApiVersion")))
        for client, head in heads
        if client not in closed
    )
    missing, more = logged - read, certain - logged
    if missing or (all_logged and more):
        raise RecorderError(
            f"tshark read {read.total()} requests and the broker logged {logged.total()}: "
            f"not read {list(missing)[:3]}, not logged {list(more)[:3]}"
        )
