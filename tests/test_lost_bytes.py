"""Lost bytes are counted once: all outputs have the same number."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import NAMES, path
from tests.support.loss import packets_of, pcap_without

if TYPE_CHECKING:
    from pathlib import Path

COUNTED = {"lost_bytes": AnomalyKind.LOST_BYTES, "snapped_bytes": AnomalyKind.SNAPPED_BYTES}


def check(capture: str) -> Counter[str]:
    """Compare the counts in quality, in its anomalies, and in rows of connections and anomalies."""
    analysis = Analysis([capture])
    rows = [row for batch in analysis.connection_batches() for row in batch]
    anomaly_bytes: Counter[str] = Counter()
    others = Analysis([capture])
    for batch in others.anomaly_batches():
        for anomaly in batch:
            anomaly_bytes[anomaly.kind] += anomaly.bytes or 0
    found: Counter[str] = Counter()
    for name, kind in COUNTED.items():
        found[name] = getattr(analysis.quality, name)
        total = analysis.quality.anomalies.get(kind)
        assert (0 if total is None else total.bytes) == found[name]
        assert anomaly_bytes[kind] == found[name]
        columns = [f"{side}_{name}" for side in ("client", "broker")]
        assert sum(getattr(row, column) for row in rows for column in columns) == found[name]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_all_outputs_have_the_same_number(name: str) -> None:
    check(str(path(name)))


@pytest.mark.parametrize("name", ["basics", "codecs", "mock"])
def test_all_outputs_have_the_same_number_where_packets_are_missing(
    name: str, tmp_path: Path
) -> None:
    noise = random.Random(name)
    gone = [number for number, _ in enumerate(packets_of(name), 1) if noise.random() < 0.05]
    capture = tmp_path / "lossy.pcap"
    capture.write_bytes(pcap_without(name, gone))
    assert check(str(capture))["lost_bytes"] > 0
