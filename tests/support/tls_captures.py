"""Captures of TLS, their key logs, and their content according to broker and tshark."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parents[2] / "captures" / "tls"
_TRUTHS = {
    file.name.removesuffix(".truth.json"): json.loads(file.read_text())
    for file in sorted(FOLDER.glob("*.truth.json"))
}
STAND_INS = [name for name, told in _TRUTHS.items() if "stand_in" in told]
"""Captures without a broker: OpenSSL on both ends, and a few requests inside."""
RECORDED = [
    name for name, told in _TRUTHS.items() if "cut_from" not in told and name not in STAND_INS
]
"""Whole captures of a broker."""
READABLE = [name for name in RECORDED if sum(_TRUTHS[name]["requests_by_client_id"].values())]
"""Captures of a broker that answered requests; the others are of handshakes that fail."""
FAILED = [name for name in RECORDED if name not in READABLE]
WITH_SECRETS = [name for name in _TRUTHS if name.endswith("-embedded")]
"""pcapng files with their secrets inside."""
LATE = [name for name in _TRUTHS if name.endswith("-late")]
"""Captures that begin in the middle of a connection."""
LOST = [name for name in _TRUTHS if name.endswith("-lost")]
"""Captures in which packets are missing."""


class Request(NamedTuple):
    """A request as tshark reads it, with the size prefixes of it and of its response."""

    client: str
    correlation_id: int
    api_key: int
    api_version: int
    request_bytes: int
    response_bytes: int | None


def truth(name: str) -> dict[str, Any]:
    """The counts of broker and clients, or the parts that were cut away."""
    found: dict[str, Any] = _TRUTHS[name]
    return found


def source(name: str) -> str:
    """The capture that this one was cut from, or itself."""
    return Path(truth(name).get("cut_from", name)).stem


def path(name: str) -> Path:
    return FOLDER / truth(name)["capture"]


def keylog(name: str) -> Path:
    """The key log: the secrets of all connections that clients or brokers wrote down."""
    return FOLDER / f"{source(name)}.keys"


def request_log(name: str) -> list[dict[str, Any]]:
    """The broker's request log of the whole recording; empty if it had no requests."""
    log = FOLDER / f"{source(name)}.broker.jsonl.gz"
    if not log.exists():
        return []
    with gzip.open(log, "rt") as lines:
        return [json.loads(line) for line in lines]


def read_by_tshark(name: str) -> list[Request]:
    """The requests that tshark reads in this capture with its secrets."""
    _, *lines = (FOLDER / f"{name}.tshark.tsv").read_text().splitlines()
    found = []
    for line in lines:
        client, *numbers, last = line.split("\t")
        number, key, version, request_bytes = map(int, numbers)
        response_bytes = int(last) if last else None
        found.append(Request(client, number, key, version, request_bytes, response_bytes))
    return found


def connections(name: str) -> list[dict[str, Any]]:
    """The handshakes and alerts of this capture as tshark reads them."""
    found: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.tshark.json").read_text())[
        "connections"
    ]
    return found
