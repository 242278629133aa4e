from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import captures, compare, figures, programs
from benchmarks.compare import Rounds
from benchmarks.errors import BenchmarkError
from benchmarks.figures import EMPTY, Figures, Table
from benchmarks.programs import Source
from benchmarks.revision import Stamp
from tests.support.captures import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def without_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of captures that need not be recorded; slow commands are replaced."""
    for kind in captures.KINDS:
        (tmp_path / f"{kind}.pcap").write_bytes(bytes(24))

    def measured(name: str, times: int, source: Source, _: Rounds) -> Table:
        assert (source.keys is not None) == (name == captures.TLS)
        return Table(name, times, "", 0, None, 0, {})

    def make_repeated(source: Path, times: int, target: Path) -> int:
        target.write_bytes(source.read_bytes() * times)
        return 0

    monkeypatch.setattr(compare, "compare", measured)
    monkeypatch.setattr(compare.programs, "broker_ports", lambda capture: [])
    monkeypatch.setattr(compare.captures, "make_repeated", make_repeated)
    return tmp_path


def measured(
    folder: Path, kinds: list[str] | None, *, quick: bool = False
) -> Iterator[tuple[str, int]]:
    once = Rounds(1, 1, with_memory=False)
    arguments = argparse.Namespace(
        folder=folder, kind=kinds, all_rounds=once, keep=False, quick=quick
    )
    for table in compare.measure_all(arguments):
        yield table.name, table.times


def test_every_kind_is_measured_once_and_repeated_ten_times(without_runs: Path) -> None:
    expected = [(kind, times) for kind in captures.KINDS for times in (1, 10)]
    assert list(measured(without_runs, None)) == [(EMPTY, 1), *expected]
    assert {file.stem for file in without_runs.iterdir()} == set(captures.KINDS)


def test_only_requested_kinds_and_the_start_up_are_measured(without_runs: Path) -> None:
    assert list(measured(without_runs, ["java", "small"])) == [
        (EMPTY, 1),
        *(("java", times) for times in (1, 10)),
        *(("small", times) for times in (1, 10)),
    ]
    quick = list(measured(without_runs, ["java", "small"], quick=True))
    assert quick == [(EMPTY, 1), ("java", 1), ("small", 1)]


def test_all_commands_run_in_turn_into_an_empty_folder(tmp_path: Path) -> None:
    folder, log = tmp_path / "out", tmp_path / "log"
    folder.mkdir()
    code = (
        "import pathlib, sys; out = pathlib.Path(sys.argv[1]); "
        "print(sys.argv[2], len(list(out.iterdir())), file=open(sys.argv[3], 'a')); "
        "(out / sys.argv[2]).touch()"
    )
    commands = {
        name: [sys.executable, "-S", "-c", code, str(folder), name, str(log)] for name in "ab"
    }
    runs = compare.in_turn(commands, 2, folder)
    assert {name: len(each) for name, each in runs.items()} == {"a": 2, "b": 2}
    assert log.read_text().split("\n") == ["a 0", "b 0", "a 0", "b 0", ""]


def test_keys_are_for_all_commands_that_take_them(tmp_path: Path) -> None:
    def commands(keys: Path | None) -> dict[str, list[str]]:
        source = Source(FOLDER / "basics.pcap", [9092], keys)
        return programs.commands(source, tmp_path, programs.COMMANDS)

    plain, with_keys = commands(None), commands(tmp_path / "keys")
    assert {programs.base_name(name) for name in plain} == {*programs.COMMANDS, "tshark", "tcpdump"}
    assert {"requests --jobs 1", "requests --jobs 2", "report --jobs 2"} <= with_keys.keys()
    assert all(name in plain for name in with_keys)
    assert {name for name, words in with_keys.items() if "keys" not in str(words)} == {"tcpdump"}
    assert "tls.port==9092,kafka" in with_keys["tshark"]


@pytest.mark.long
def test_a_figure_depends_on_what_its_command_imports() -> None:
    reads = compare.reads()
    assert reads.keys() == {*programs.COMMANDS, programs.HELP}
    for name, rooms in reads.items():
        assert {"cli", "kanalyze", "how it is compiled"} <= set(rooms)
        assert ("kafka" in rooms) == (name != programs.HELP)
        assert not {"live", "spark", "batch"} & set(rooms)
        assert ("anonymization" in rooms) == (name == "anonymize")
        assert ("extraction" in rooms) == (name == "extract")


def test_figures_are_added_to_those_of_the_same_code_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = Stamp("abc", "2026-11-28", {"net": "a"})
    monkeypatch.setattr(compare.revision, "stamp", lambda: stamp)
    monkeypatch.setattr(compare.programs, "versions", lambda: "2 cores")
    file = tmp_path / "results.json"
    table = Table("java", 1, "", 0, None, 0, {})

    def begun(kinds: list[str] | None, *, quick: bool = False) -> list[Table]:
        return compare.begin(argparse.Namespace(json=file, kind=kinds, quick=quick)).tables

    assert begun(["java"]) == []
    figures.save(Figures(stamp, "2 cores", {}, [table]), {}, file)
    assert begun(["java"]) == [table]
    assert begun(None) == begun(["java"], quick=True) == []
    figures.save(Figures(Stamp("old", "2026-11-27", {"net": "b"}), "2 cores"), {}, file)
    with pytest.raises(BenchmarkError, match="do not mix"):
        begun(["java"])
    assert begun(None) == []
