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
    from collections.abc import Callable
    from pathlib import Path

SOURCE = FOLDER / "large.pcap"
# The real tcpdump prints these lines too, to standard error.
TCPDUMP = """#!{python}
import pathlib, signal, sys
# The signal is blocked: one that came just before signal.pause() would be missed.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
target = pathlib.Path(sys.argv[sys.argv.index("-w") + 1])
target.write_text(sys.argv[-1])
print("tcpdump: listening on lo, link-type EN10MB (Ethernet)", file=sys.stderr, flush=True)
signal.sigwait([signal.SIGINT])
sys.exit("{summary}")
"""


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds that were recorded; each recording is a copy of one of our captures."""
    kinds: list[str] = []

    def record(kind: str, target: Path) -> None:
        kinds.append(kind)
        shutil.copyfile(SOURCE, target)

    monkeypatch.setattr(captures, "record", record)
    return kinds


def tcpdump(folder: Path, summary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "tcpdump"
    program.write_text(TCPDUMP.format(python=sys.executable, summary=summary))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(captures.time, "sleep", lambda seconds: None)


def test_the_lossy_capture_is_made_from_the_mixed_one(recorded: list[str], tmp_path: Path) -> None:
    lossy = captures.capture(LOSSY, tmp_path)
    assert recorded == [MIXED]
    assert captures.capture(LOSSY, tmp_path) == lossy
    assert captures.capture(MIXED, tmp_path).read_bytes() == SOURCE.read_bytes()
    assert recorded == [MIXED]
    drop(SOURCE, tmp_path / "expected.pcap")
    assert lossy.read_bytes() == (tmp_path / "expected.pcap").read_bytes()


def test_a_capture_appears_when_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tcpdump(tmp_path, "0 packets dropped by kernel", monkeypatch)
    target = tmp_path / "one.pcap"
    with captures.listening((), "tcp port 9092", target):
        assert not target.exists()
    assert target.read_text() == "tcp port 9092"


def fails() -> None:
    raise BenchmarkError("the clients failed")


@pytest.mark.parametrize(
    ("dropped", "traffic", "error"),
    [(3, lambda: None, "dropped packets"), (0, fails, "the clients failed")],
)
def test_a_capture_that_is_not_whole_is_discarded(
    dropped: int,
    traffic: Callable[[], None],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tcpdump(tmp_path, f"{dropped} packets dropped by kernel", monkeypatch)
    target = tmp_path / "one.pcap"
    with (
        pytest.raises(BenchmarkError, match=error),
        captures.listening((), "tcp", target),
    ):
        traffic()
    assert not target.exists()


def test_the_error_of_tcpdump_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tcpdump(tmp_path, "", monkeypatch)
    (tmp_path / "tcpdump").write_text("#!/bin/sh\necho lo: no such device >&2\nexit 1\n")
    with (
        pytest.raises(BenchmarkError, match="does not listen: lo: no such device"),
        captures.listening((), "tcp", tmp_path / "one.pcap"),
    ):
        raise AssertionError("nobody listens")
