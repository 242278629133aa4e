from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.fuzz import run
from tests.fuzz.invariant import Broken
from tests.fuzz.run import CASES, Finding, fuzz, main, save
from tests.fuzz.shapes import BYTES
from tests.fuzz.table import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Install = Callable[[Callable[[bytes], None]], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a target named ``own`` into the table."""

    def put(target: Callable[[bytes], None]) -> None:
        made = Target(target, lambda: [b"seed", b"\0" * 40], BYTES, 64, 1)
        monkeypatch.setitem(TARGETS, "own", made)

    return put


def refuse_ff(data: bytes) -> None:
    if b"\xff" in data:
        raise Broken("there is an FF")


def test_a_broken_invariant_is_one_finding(install: Install) -> None:
    install(refuse_ff)
    report = fuzz("own", runs=500, seconds=None, seed=1)
    (finding,) = report.findings
    assert "there is an FF" in finding.what
    assert b"\xff" in finding.data
    assert "refuse_ff" in finding.trace
    assert report.inputs == 500
    assert "findings 1" in report.line()


def test_seeds_that_cannot_be_made_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_seeds() -> list[bytes]:
        raise ValueError("a module is from older sources")

    made = Target(refuse_ff, no_seeds, BYTES, 64, 1)
    monkeypatch.setitem(TARGETS, "own", made)
    report = fuzz("own", runs=10, seconds=None, seed=1)
    assert ["older sources" in finding.what for finding in report.findings] == [True]
    assert "inputs" in report.line()


def test_a_target_that_takes_too_long_is_a_finding(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spin(data: bytes) -> None:
        until = time.thread_time() + 0.02
        while b"s" in data and time.thread_time() < until:
            pass

    monkeypatch.setattr(run, "_SLOW_SECONDS", 0.0)
    install(spin)
    report = fuzz("own", runs=1, seconds=None, seed=1)
    assert [finding.what.split(":")[0] for finding in report.findings] == ["slow"]


def test_a_target_that_hangs_is_stopped(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(data: bytes) -> None:
        while data:
            pass

    monkeypatch.setattr(run, "HANG_SECONDS", 0.02)
    install(hang)
    (finding,) = fuzz("own", runs=1, seconds=None, seed=1).findings
    assert finding.what.startswith("TooSlow in")


def test_a_target_that_grows_is_a_finding(install: Install) -> None:
    kept = []
    install(lambda data: kept.append(bytearray(b"x") * (4 << 20)))
    report = fuzz("own", runs=60, seconds=None, seed=1)
    assert report.growth_mib > 32
    assert [finding.what.split(" by ")[0] for finding in report.findings] == ["memory grew"]


def test_a_case_is_reduced_and_saved(install: Install, tmp_path: Path) -> None:
    install(refuse_ff)
    found = fuzz("own", runs=500, seconds=None, seed=1).findings[0]
    path = save("own", Finding(found.what, b"abc" * 10 + b"\xff" + b"def" * 9, ""), tmp_path)
    assert path.parent == tmp_path / "own"
    assert path.read_bytes() == b"\xff"


@pytest.mark.long
def test_the_command_runs_a_target_and_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = set(CASES.rglob("*"))
    assert main(["--target", "sasl", "--runs", "500"]) == 0
    assert capsys.readouterr().out.startswith("500 inputs in ")
    assert set(CASES.rglob("*")) == before


def test_an_unknown_target_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--target", "nothing"])
    assert "no target nothing" in capsys.readouterr().err
