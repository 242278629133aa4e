from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import kanalyze
from tests.support.captures import path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITERS = (kanalyze.extract, kanalyze.anonymize, kanalyze.save)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return shutil.copy(path("mock"), tmp_path / "mock.pcap")


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("input_kind", ["name", "folder", "glob", "link"])
def test_an_input_is_never_replaced(
    write: Callable[..., object], input_kind: str, capture: Path, tmp_path: Path
) -> None:
    link = tmp_path.with_name("link.pcap")
    link.unlink(missing_ok=True)
    link.hardlink_to(capture)
    inputs = {"name": capture, "folder": tmp_path, "glob": f"{tmp_path}/*.pcap", "link": link}
    before = capture.read_bytes()
    options = {} if write is kanalyze.save else {"force": True}
    with pytest.raises(kanalyze.UsageError, match="is also an input"):
        write(inputs[input_kind], output=capture, **options)
    assert capture.read_bytes() == before
    assert list(tmp_path.iterdir()) == [capture]


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
