"""Several processes write and find the same as one."""

from __future__ import annotations

import os
import signal
from functools import partial
from multiprocessing import active_children
from typing import TYPE_CHECKING

import pytest

from kanalyze.anonymization import streams as streams_module
from kanalyze.anonymization.anonymize import Anonymization
from kanalyze.anonymization.check import OutputCheck
from kanalyze.common import forked as forked_module
from kanalyze.common.forked import Forked, usable_processes
from kanalyze.errors import CaptureError, KanalyzeError
from kanalyze.export.files import OutputFile
from tests.support.anonymous import KEY
from tests.support.captures import NAMES, in_turn, path
from tests.support.disorder import altered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kanalyze.anonymization.anonymize import Anonymized

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no processes here")


@pytest.fixture
def allow_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use processes for small captures too."""
    monkeypatch.setattr(forked_module, "_MIN_BYTES", 0)


def made(
    folder: Path, *captures: Path, jobs: int, strips: bool = False
) -> tuple[Anonymized, bytes, tuple[str, ...]]:
    """Return counts, bytes and differences of an anonymous capture."""
    target = folder / f"{jobs}.pcapng"
    run = Anonymization(list(captures), KEY, strips_records=strips, jobs=jobs)
    done = run.run(partial(OutputFile, str(target), replaces_captures=True))
    done_bytes, all_bytes = run.progress
    assert done_bytes == all_bytes
    return done, target.read_bytes(), run.check(str(target)).differences()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("name", "jobs"), in_turn(NAMES, [2, 5], ("basics", "snaplen", "sasl", "codecs", "tls"))
)
@pytest.mark.usefixtures("allow_small")
def test_processes_write_the_same_bytes(tmp_path: Path, name: str, jobs: int) -> None:
    for strips in (False, True):
        found = made(tmp_path, path(name), jobs=jobs, strips=strips)
        assert found == made(tmp_path, path(name), jobs=1, strips=strips)
        assert found[2] == ()


@pytest.mark.usefixtures("allow_small")
def test_processes_read_several_captures_of_many_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (content,) = altered("mock", "sequence numbers wrap").files
    wrapping = tmp_path / "wrapping.capture"
    wrapping.write_bytes(content)
    captures = (wrapping, path("any"), path("ipv6"), path("errors"))
    alone = made(tmp_path, *captures, jobs=1)
    assert made(tmp_path, *captures, jobs=3) == alone
    # Where a stream may be so long that sequence numbers come again, one process writes.
    monkeypatch.setattr(streams_module, "_NEVER_WRAPS_BYTES", 0)
    assert made(tmp_path, *captures, jobs=3) == alone


@pytest.mark.usefixtures("allow_small")
def test_processes_find_the_same_differences() -> None:
    for one, other in (("any", "basics"), ("basics", "errors")):
        lines = [
            OutputCheck([path(one)], str(path(other)), jobs=jobs).differences()
            for jobs in (1, 2, 5)
        ]
        # Of several connections with equally many rows, another one may be named.
        numbers = [[line.split(" (")[0] for line in each] for each in lines]
        assert numbers[0]
        assert numbers[1] == numbers[2] == numbers[0]


@pytest.mark.usefixtures("allow_small")
def test_an_error_in_a_process_is_that_of_one(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(b"this is no capture at all")
    errors = []
    for jobs in (1, 2):
        with pytest.raises(CaptureError) as raised:
            made(tmp_path, bad, jobs=jobs)
        errors.append(str(raised.value))
    assert errors[0] == errors[1]
    assert active_children() == []
    assert [each.name for each in tmp_path.iterdir()] == [bad.name]


def _numbers(until: int) -> Iterator[int]:
    yield from range(until)


def _killed() -> Iterator[int]:
    yield 1
    os.kill(os.getpid(), signal.SIGKILL)


def test_items_come_in_order_and_a_killed_process_is_an_error() -> None:
    assert list(Forked(partial(_numbers, 1000))) == list(range(1000))
    killed = Forked(_killed)
    assert next(killed) == 1
    with pytest.raises(KanalyzeError, match="process died"):
        next(killed)
    killed.close()
    endless = Forked(partial(_numbers, 1 << 40))
    assert next(endless) == 0
    endless.close()
    assert active_children() == []


def test_small_captures_and_unknown_sizes_are_read_by_one_process() -> None:
    assert usable_processes(4, 1 << 30) == 4
    assert usable_processes(4, 1000) == usable_processes(4, None) == 1
