"""Files by their paths: no path raises an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.common import paths

if TYPE_CHECKING:
    from pathlib import Path


def test_files_folders_and_links_are_recognized(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(b"12345")
    link = tmp_path / "link"
    link.symlink_to(file)
    assert [paths.regular_bytes(each) for each in (file, link, tmp_path)] == [5, 5, None]
    assert (paths.is_file(link), paths.is_folder(tmp_path), paths.exists(file)) == (True,) * 3
    with paths.opened(file) as opened:
        assert opened.read() == b"12345"


@pytest.mark.parametrize("path", ["/nowhere/at/all", "null\0byte"])
def test_a_path_without_a_file_has_no_status_and_no_size(path: str) -> None:
    assert paths.stat_of(path) is None
    assert paths.regular_bytes(path) is None


@pytest.mark.parametrize(
    ("name", "ending"),
    [("a.PCAP", ".pcap"), ("a.tar.gz", ".gz"), ("folder.d/", ".d"), ("x.", ""), (".hidden", "")],
)
def test_the_ending_of_a_name_is_in_lower_case(name: str, ending: str) -> None:
    assert paths.ending(name) == ending
