from __future__ import annotations

import pytest

from kanalyze.export.files import OutputFile
from kanalyze.export.writer import FileWriter


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
