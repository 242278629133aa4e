"""A user may name brokers by port, by address or by both.

Captures as users give them: as a path, a folder or an open file; others are refused.

Memory is divided among stages and workers, and never exceeds the limit.

Rows as objects and the lines of one table are views of rows by column.
"""

from __future__ import annotations

import gc
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.errors import UsageError
from kanalyze.runtime.memory import MIN_MEMORY_BYTES, MemoryBounds
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.settings import AnalysisInputs, broker_side
from kanalyze.runtime.stages import Stages
from kanalyze.runtime.table_rows import RowSource, TableRows
from kanalyze.tables.columns.block import RowBlock
from tests.support.captures import analysis, path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


def test_without_ports_and_addresses_no_broker_is_known():
    assert broker_side([], []) is None


@pytest.mark.parametrize(
    ("ports", "brokers", "ip", "port", "expected"),
    [
        ([9092], [], "10.0.0.1", 9092, True),
        ([9092], [], "10.0.0.1", 9093, False),
        ([], ["10.0.0.1"], "10.0.0.1", 1, True),
        ([], ["10.0.0.1:9092"], "10.0.0.1", 9092, True),
        ([], ["10.0.0.1:9092"], "10.0.0.1", 9093, False),
        ([], ["10.0.0.1:9092"], "10.0.0.2", 9092, False),
        ([9093], ["10.0.0.1:9092"], "10.0.0.2", 9093, True),
        ([], ["[::1]:9092"], "::1", 9092, True),
        ([], ["::1"], "::1", 5, True),
    ],
)
def test_a_broker_is_recognized_by_port_or_by_address(ports, brokers, ip, port, expected):
    assert broker_side(ports, brokers)(ip, port) is expected


@pytest.mark.parametrize(
    ("ports", "brokers"), [([0], []), ([65536], []), ([], ["nowhere:x"]), ([], [":9092"])]
)
def test_an_invalid_port_or_address_is_refused(ports, brokers):
    with pytest.raises(UsageError):
        broker_side(ports, brokers)


NAME = "controller"
FILE = "controller.pcap"


def packets(captures) -> int:
    return sum(len(batch) for batch in captures.batches())


def test_a_capture_is_the_same_by_path_by_folder_and_as_an_open_file(tmp_path):
    shutil.copy(path(NAME), tmp_path / FILE)
    (tmp_path / "notes.txt").write_text("no capture")
    with path(NAME).open("rb") as file:
        counts = [
            packets(AnalysisInputs([capture]).open()) for capture in (path(NAME), tmp_path, file)
        ]
    assert counts[0] > 0
    assert counts == [counts[0]] * 3


def test_files_can_be_read_again_and_open_files_cannot():
    inputs = AnalysisInputs([path(NAME)])
    assert inputs.open_again() is None
    assert packets(inputs.open()) == packets(inputs.open_again())
    assert inputs.are_files
    with path(NAME).open("rb") as file:
        inputs = AnalysisInputs([file])
        inputs.open()
        assert (inputs.are_files, inputs.open_again()) == (False, None)
        assert inputs.first_time_ns() is None


def test_captures_are_opened_once():
    inputs = AnalysisInputs([path(NAME)])
    assert inputs.progress == (0, None)
    inputs.open()
    with pytest.raises(UsageError, match="can be run only once"):
        inputs.open()


def test_an_unreadable_file_in_a_folder_is_skipped_and_reported(tmp_path):
    shutil.copy(path(NAME), tmp_path / FILE)
    (tmp_path / "broken.pcap").write_bytes(b"no capture at all, of more than 24 bytes")
    reported = []
    inputs = AnalysisInputs([tmp_path], leave_out=reported.append)
    inputs.open()
    assert len(inputs.captures) == 1
    assert len(reported) == len(inputs.left_out) == 1
    assert "broken.pcap" in reported[0].detail


@pytest.mark.parametrize("captures", [[None], [5], [b"x"], [["x"]]])
def test_an_invalid_argument_is_refused_before_captures_are_opened(captures):
    with pytest.raises(UsageError, match="not a capture: "):
        AnalysisInputs(captures)


def test_a_run_without_captures_is_an_error():
    with pytest.raises(UsageError, match="no capture given"):
        AnalysisInputs([]).open()


@given(st.integers(MIN_MEMORY_BYTES, 1 << 50), st.integers(1, 512))
def test_the_parts_do_not_exceed_the_total(total, workers):
    bounds = MemoryBounds.of(total)
    assert total - 3 <= sum(bounds) <= total
    assert sum(bounds.of_shard(workers)) * workers <= sum(bounds)


def test_too_little_memory_is_refused():
    with pytest.raises(UsageError, match="at least 32 MiB"):
        MemoryBounds.of(MIN_MEMORY_BYTES - 1)


def test_cycles_are_not_searched_for_among_the_objects_of_a_batch(monkeypatch):
    """Those of a hundred thousand tiny connections are many, and none is in a cycle."""
    seen = []
    for name in ("feed", "finish"):
        method = getattr(Stages, name)

        def checked(*arguments, method=method):
            seen.append(gc.isenabled())
            return method(*arguments)

        monkeypatch.setattr(Stages, name, checked)
    list(Analysis([path("basics")]).batches())
    assert len(seen) >= 2
    assert not any(seen)
    assert gc.isenabled()


ROWS = analysis("basics")[0]


class Blocks(RowSource):
    def batches(self) -> Iterator[RowBlock]:
        yield RowBlock.of_rows(ROWS[:3])
        yield RowBlock.of_rows(ROWS[3:5])

    def table_rows(self, more: Collection[str] = (), *, others: bool = True) -> Iterator[TableRows]:
        assert not others
        for first, block in enumerate(self.batches()):
            lines = [(table, block.part(first, first + 1)) for table in more]
            yield TableRows([block], [], [], lines=lines)


def test_rows_are_those_of_the_blocks() -> None:
    assert [row for rows in Blocks().row_batches() for row in rows] == list(ROWS[:5])


def test_a_large_block_is_made_into_objects_in_pieces() -> None:
    class Large(Blocks):
        def batches(self) -> Iterator[RowBlock]:
            yield RowBlock.of_rows(list(ROWS) * 100)

    sizes = [len(rows) for rows in Large().row_batches()]
    assert len(sizes) > 1
    assert sum(sizes) == 100 * len(ROWS)


def test_lines_of_a_table_are_without_other_rows() -> None:
    lines = [block.rows() for block in Blocks().line_blocks("groups")]
    assert lines == [[ROWS[0]], [ROWS[4]]]
