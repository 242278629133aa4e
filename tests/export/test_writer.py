from __future__ import annotations

from random import Random

import pytest

from kanalyze.export.files import OutputFile
from kanalyze.export.open import open_writer
from kanalyze.export.writer import FileWriter
from tests.support.row_blocks import blocks_of
from tests.support.rows import plain_traffic


def test_leaving_the_block_closes_the_file(tmp_path):
    with FileWriter(OutputFile(str(tmp_path / "out"))) as writer:
        writer.output.file.write(b"x")
    assert (tmp_path / "out").read_bytes() == b"x"


def test_an_exception_in_the_block_removes_the_file(tmp_path):
    def fail():
        with FileWriter(OutputFile(str(tmp_path / "out"))):
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_block_is_written_like_its_rows(tmp_path):
    traffic = plain_traffic(40)
    for name in ("rows.csv", "blocks.csv", "rows.jsonl", "blocks.jsonl"):
        with open_writer(str(tmp_path / name)) as writer:
            if name.startswith("rows"):
                writer.write(traffic)
            else:
                for block in blocks_of(traffic, Random(1)):
                    writer.write_block(block)
    for ending in ("csv", "jsonl"):
        plain = (tmp_path / f"rows.{ending}").read_bytes()
        assert plain
        assert (tmp_path / f"blocks.{ending}").read_bytes() == plain
