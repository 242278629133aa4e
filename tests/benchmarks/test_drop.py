from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kanalyze
from benchmarks.drop import drop
from benchmarks.errors import BenchmarkError
from benchmarks.repeat import repeat
from tests.support.captures import FOLDER
from tests.support.disorder.capture_files import read_packets

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = FOLDER / "basics.pcap"


def test_packets_are_dropped_and_the_others_are_unchanged(tmp_path: Path) -> None:
    target = tmp_path / "lossy.pcap"
    dropped = drop(SOURCE, target, 0.1)
    before, after = read_packets(SOURCE.read_bytes()), read_packets(target.read_bytes())

    assert len(before) - len(after) == dropped > 0
    assert target.read_bytes()[:24] == SOURCE.read_bytes()[:24]
    rest = iter(before)
    assert all(any(one == other for other in rest) for one in after)


def test_the_same_source_loses_the_same_packets(tmp_path: Path) -> None:
    for name in ("one.pcap", "other.pcap"):
        drop(SOURCE, tmp_path / name, 0.1)
    assert (tmp_path / "one.pcap").read_bytes() == (tmp_path / "other.pcap").read_bytes()


def test_lost_bytes_are_detected_in_every_repetition(tmp_path: Path) -> None:
    lossy, longer = tmp_path / "lossy.pcap", tmp_path / "longer.pcap"
    drop(SOURCE, lossy, 0.1)
    repeat(lossy, 3, longer)
    once, thrice = kanalyze.requests(str(lossy)), kanalyze.requests(str(longer))
    assert len(list(thrice)) == 3 * len(list(once)) > 0
    assert once.quality.lost_bytes > 0
    assert thrice.quality.lost_bytes == 3 * once.quality.lost_bytes


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_an_invalid_share_is_refused(share: float, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="no share"):
        drop(SOURCE, tmp_path / "lossy.pcap", share)


def test_a_file_that_is_no_ethernet_pcap_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"errors\.pcapng"):
        drop(FOLDER / "errors.pcapng", tmp_path / "lossy.pcap")
