from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import kanalyze
from benchmarks.randomize import randomize
from tests.support.captures import FOLDER

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_are_the_same_and_the_bytes_no_longer_compress(tmp_path: Path) -> None:
    source, target = FOLDER / "large.pcap", tmp_path / "large.pcap"
    count = randomize(source, target)
    before, after = source.read_bytes(), target.read_bytes()

    def rows(path: Path) -> list[dict[str, object]]:
        found = [row._asdict() for row in kanalyze.requests(str(path))]
        for row in found:
            del row["capture"]
        return found

    assert len(after) == len(before)
    assert count > len(before) / 2
    assert (
        sum(old_byte != new_byte for old_byte, new_byte in zip(before, after, strict=True))
        > count * 0.9
    )
    assert len(zlib.compress(after, 1)) > count
    assert rows(target) == rows(source)
