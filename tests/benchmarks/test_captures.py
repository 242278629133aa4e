from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import captures
from benchmarks.captures import LOSSY, MIXED
from benchmarks.drop import drop
from benchmarks.errors import BenchmarkError
from tests.support.captures import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = FOLDER / "large.pcap"
# The real one says these lines, to where it complains too.
TCPDUMP = """#!{python}
import pathlib, signal, sys
# Blocked and waited for: one that came just before signal.pause() would be missed.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
target = pathlib.Path(sys.argv[sys.argv.index("-w") + 1])
target.write_text(sys.argv[-1])
print("tcpdump: listening on lo, link-type EN10MB (Ethernet)", file=sys.stderr, flush=True)
signal.sigwait([signal.SIGINT])
sys.exit("{said}")
"""


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds that were recorded; what was recorded is one of our captures each time."""
    kinds: list[str] = []

    def record(kind: str, target: Path) -> None:
        kinds.append(kind)
        shutil.copyfile(SOURCE, target)

    monkeypatch.setattr(captures, "record", record)
    return kinds


def tcpdump(folder: Path, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "tcpdump"
    program.write_text(TCPDUMP.format(python=sys.executable, said=said))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(captures.time, "sleep", lambda seconds: None)


def test_a_capture_is_recorded_once(recorded: list[str], tmp_path: Path) -> None:
    for _ in range(2):
        assert captures.capture("java", tmp_path) == tmp_path / "java.pcap"
    assert recorded == ["java"]


def test_the_lossy_one_is_made_of_the_mixed_one(recorded: list[str], tmp_path: Path) -> None:
    lossy = captures.capture(LOSSY, tmp_path)
    assert recorded == [MIXED]
    assert captures.capture(LOSSY, tmp_path) == lossy
    assert captures.capture(MIXED, tmp_path).read_bytes() == SOURCE.read_bytes()
    assert recorded == [MIXED]
    drop(SOURCE, tmp_path / "expected.pcap")
    assert lossy.read_bytes() == (tmp_path / "expected.pcap").read_bytes()


def test_a_capture_is_there_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tcpdump(tmp_path, "0 packets dropped by kernel", monkeypatch)
    target = tmp_path / "one.pcap"
    with captures.listening((), "tcp port 9092", target):
        assert not target.exists()
    assert target.read_text() == "tcp port 9092"


def test_a_capture_that_lost_packets_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tcpdump(tmp_path, "3 packets dropped by kernel", monkeypatch)
    target = tmp_path / "one.pcap"
    with (
        pytest.raises(BenchmarkError, match="dropped packets"),
        captures.listening((), "tcp", target),
    ):
        pass
    assert not target.exists()


def test_a_capture_of_traffic_that_failed_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tcpdump(tmp_path, "0 packets dropped by kernel", monkeypatch)
    target = tmp_path / "one.pcap"
    with (
        pytest.raises(BenchmarkError, match="the clients failed"),
        captures.listening((), "tcp", target),
    ):
        raise BenchmarkError("the clients failed")
    assert not target.exists()


def test_a_tcpdump_that_does_not_listen_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tcpdump(tmp_path, "", monkeypatch)
    (tmp_path / "tcpdump").write_text("#!/bin/sh\necho lo: no such device >&2\nexit 1\n")
    with (
        pytest.raises(BenchmarkError, match="does not listen: lo: no such device"),
        captures.listening((), "tcp", tmp_path / "one.pcap"),
    ):
        raise AssertionError("nobody listens")
