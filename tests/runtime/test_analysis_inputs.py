"""Captures as users give them: as a path, a folder or an open file; others are refused."""

from __future__ import annotations

import shutil

import pytest

from kanalyze.errors import UsageError
from kanalyze.runtime.settings import AnalysisInputs
from tests.support.captures import path

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
