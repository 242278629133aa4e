from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.support.captures import path

if TYPE_CHECKING:
    from collections.abc import Callable

WRITERS = (kanalyze.extract, kanalyze.anonymize, kanalyze.save)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return shutil.copy(path("mock"), tmp_path / "mock.pcap")


@pytest.fixture
def options(write: Callable[..., object]) -> dict[str, bool]:
    return {} if write is kanalyze.save else {"force": True}


NONE = "no capture in this folder|no file has such a name|is a capture and is not overwritten"
"""An output is left out of a folder that is read: no capture remains."""
INPUTS = {"folder": "{}", "glob": "{}/*.pcap"}


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("{}/mock.pcap", "is also an input"),
        ("{}-link.pcap", "is also an input"),
        *((named, NONE) for named in INPUTS.values()),
    ],
)
def test_an_input_is_never_replaced(
    write: Callable[..., object],
    named: str,
    problem: str,
    options: dict[str, bool],
    capture: Path,
    tmp_path: Path,
) -> None:
    Path(f"{tmp_path}-link.pcap").hardlink_to(capture)
    before = capture.read_bytes()
    with pytest.raises(kanalyze.KanalyzeError, match=problem):
        write(named.format(tmp_path), output=capture, **options)
    assert capture.read_bytes() == before
    assert list(tmp_path.iterdir()) == [capture]


@pytest.mark.parametrize("by", ["the library", "the shell"])
@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("input_kind", INPUTS)
def test_a_capture_in_a_folder_that_is_read_is_not_replaced_unless_that_is_said(
    write: Callable[..., object],
    input_kind: str,
    by: str,
    options: dict[str, bool],
    capture: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = shutil.copy(path("any"), tmp_path / "any.pcap")
    named, before = INPUTS[input_kind].format(tmp_path), other.read_bytes()
    message = f"{other}: is a capture and is not overwritten"
    words = [write.__name__, "-o", str(other), named]
    if by == "the library":
        with pytest.raises(kanalyze.UsageError, match=message):
            write(named, output=other)
    else:
        assert main(words) == 2
        assert message in capsys.readouterr().err
    assert other.read_bytes() == before
    if not options:
        return
    if by == "the library":
        write(named, output=other, **options)
    else:
        assert main([*words, "--force"]) == 0
        assert capsys.readouterr().err == f"kanalyze: left out: {other}: this command writes it\n"
    assert {row.capture for row in kanalyze.connections(other)} == {str(other)}
    assert len(list(kanalyze.requests(other))) == len(list(kanalyze.requests(capture)))


def test_an_open_file_is_an_input_too(capture: Path) -> None:
    with (
        capture.open("rb") as file,
        pytest.raises(kanalyze.UsageError, match="is also an input"),
    ):
        kanalyze.save(file, output=capture)


def test_force_replaces_another_capture(capture: Path, tmp_path: Path) -> None:
    other = shutil.copy(path("any"), tmp_path / "any.pcap")
    kanalyze.extract(capture, output=other, force=True)
    assert other.read_bytes() != path("any").read_bytes()
