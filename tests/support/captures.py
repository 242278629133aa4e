"""The captures of the repository, the counts of their recording, and our rows of them."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.runtime.pipeline import Analysis
from kanalyze.tls.keylog import KeyLog

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.quality import CaptureQuality

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "captures"
_TRUTHS = {
    file.name.removesuffix(".truth.json"): json.loads(file.read_text())
    for file in sorted(FOLDER.glob("*.truth.json"))
}
WHOLE = [name for name, told in _TRUTHS.items() if told.get("whole", True)]
"""Captures that hold all that broker and clients counted, and nothing more."""
TROUBLED = [name for name in _TRUTHS if name not in WHOLE]
"""The other captures: network, broker or capture did not work as they should."""
NAMES = [name for name in WHOLE if "fault" not in _TRUTHS[name]]
"""The whole captures that were not made for a finding: most tests use them. The others hold little
besides their fault, and are for tests of findings and of counts."""
CHOSEN = (
    "any",  # a cooked link layer, packets twice
    "basics",  # three clients, most APIs
    "codecs",  # all compressions
    "errors",  # error codes; pcapng
    "groups",  # members, names of topics by id
    "ipv6",
    "old-0-8-2-2",  # versions without a header of responses, message sets
    "sasl",  # secrets
    "snaplen",  # packets cut short
    "tls",  # nothing can be read
    "transactions",  # control batches, several topics
)
"""Captures that each show a rule: tests that are ``long`` with other captures run with these by
default (see :func:`often`)."""


def truth(name: str) -> dict[str, Any]:
    """The counts of the broker and the clients."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.truth.json").read_text())
    return found


def path(name: str) -> Path:
    """The file of a capture; the name of one with TLS begins with ``tls/``."""
    return (FOLDER / name).parent / truth(name)["capture"]


def key_log(name: str) -> KeyLog | None:
    """The secrets of a capture with TLS, read anew; None for a capture without a key log."""
    source = truth(name).get("cut_from", path(name).name)
    file = path(name).with_name(source).with_suffix(".keys")
    if not file.exists():
        return None
    log = KeyLog()
    log.feed(file.read_bytes())
    log.end()
    return log


def request_log(name: str) -> list[dict[str, Any]]:
    """The broker's request log; empty where there was no broker to write one."""
    log = FOLDER / f"{name}.broker.jsonl.gz"
    if not log.exists():
        return []
    with gzip.open(log, "rt") as lines:
        return [json.loads(line) for line in lines]


def often(names: Iterable[Any], chosen: Collection[Any]) -> list[Any]:
    """Return parameters: the names, all ``long`` except those in ``chosen``."""
    return [pytest.param(name, marks=() if name in chosen else pytest.mark.long) for name in names]


def in_turn(
    names: Iterable[str], others: Iterable[Any], chosen: Collection[str] | None = None
) -> list[Any]:
    """Return parameters: each name with each of the others, all but one of a name ``long``.

    The pairs rotate, so that by default each of the others occurs with some names. With ``chosen``,
    all other names are ``long`` as well.
    """
    named, beside = list(names), list(others)
    turns = [name for name in named if chosen is None or name in chosen]
    usual = {(name, beside[at % len(beside)]) for at, name in enumerate(turns)}
    return [
        pytest.param(name, other, marks=() if (name, other) in usual else pytest.mark.long)
        for name in named
        for other in beside
    ]


@functools.cache
def analysis(name: str) -> tuple[tuple[Row, ...], CaptureQuality]:
    """Our rows of the capture, and its quality."""
    run = Analysis([str(path(name))], keylog=key_log(name))
    rows = tuple(row for batch in run.row_batches() for row in batch)
    return rows, run.quality
