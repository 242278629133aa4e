from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from benchmarks import captures, compare
from benchmarks.tables import EMPTY, Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def without_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of captures that need not be recorded; slow commands are replaced."""
    for kind in captures.KINDS:
        (tmp_path / f"{kind}.pcap").write_bytes(bytes(24))

    def measured(name: str, times: int, *_: object) -> Table:
        return Table(name, times, 0, {})

    def make_repeated(source: Path, times: int, target: Path) -> int:
        target.write_bytes(source.read_bytes() * times)
        return 0

    monkeypatch.setattr(compare, "compare", measured)
    monkeypatch.setattr(compare, "check", lambda capture, ports: capture.name)
    monkeypatch.setattr(compare.programs, "broker_ports", lambda capture: [])
    monkeypatch.setattr(compare.captures, "make_repeated", make_repeated)
    return tmp_path


def measured(folder: Path, kinds: list[str] | None, *, fifty: bool) -> Iterator[tuple[str, int]]:
    arguments = argparse.Namespace(
        folder=folder, kind=kinds, rounds=1, long_rounds=1, keep=False, fifty_fold=fifty
    )
    for table in compare.measure_all(arguments, []):
        yield table.name, table.times


def test_every_kind_is_measured_once_and_repeated_ten_times(without_runs: Path) -> None:
    expected = [(kind, times) for kind in captures.KINDS for times in (1, 10)]
    assert list(measured(without_runs, None, fifty=False)) == [(EMPTY, 1), *expected]
    assert {file.stem for file in without_runs.iterdir()} == set(captures.KINDS)


def test_only_requested_kinds_and_the_start_up_are_measured(without_runs: Path) -> None:
    found = list(measured(without_runs, ["java", "small"], fifty=True))
    assert found == [
        (EMPTY, 1),
        *(("java", times) for times in (1, 10)),
        *(("small", times) for times in (1, 10, 50)),
    ]
