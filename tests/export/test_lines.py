"""Lines of cells, written by the compiled and the uncompiled module."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import pytest

from kanalyze.export import text
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

NUMBERS = [0, 7, -7, 10, 2**63 - 1, -(2**63), -(10**18), 10**18]


@pytest.fixture(scope="module", params=["compiled", "uncompiled"])
def core(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Return the module, compiled and then uncompiled."""
    if request.param == "compiled":
        yield text
        return
    with uncompiled() as modules:
        pass
    yield modules["kanalyze.export.text"]


def test_numbers_of_any_size_are_written(core):
    cells = core.NumberCells(array("q", NUMBERS), None, b"null")
    writer = core.LineWriter([b"<"], b">\n")
    assert writer.lines(len(NUMBERS), [cells]) == b"".join(b"<%d>\n" % number for number in NUMBERS)
    assert writer.each(1, [cells]) == ["<0>\n"]


def test_null_is_written_as_its_text(core):
    valid = bytearray([1, 0])
    numbers = core.NumberCells(array("q", [5, 0]), valid, b"null")
    truths = core.TruthCells(array("q", [1, 0]), valid, b"null")
    words = core.WordCells(array("i", [1, -1]), [b"a", b"b"], b"null")
    writer = core.LineWriter([b"", b",", b","], b"\n")
    assert writer.lines(2, [numbers, truths, words]) == b"5,true,b\nnull,null,null\n"
    assert core.LineWriter([b""], b"").lines(
        2, [core.TruthCells(array("q", [0, 1]), None, b"")]
    ) == (b"falsetrue")


def test_lists_are_written_as_json(core):
    items = core.NumberCells(array("q", [1, 2, 3]), None, b"null")
    item = core.LineWriter([b'{"n":'], b"}")
    lists = core.ListCells(array("q", [0, 2, 2, 3]), item, [items])
    assert core.LineWriter([b""], b"\n").lines(3, [lists]) == (
        b'[{"n":1},{"n":2}]\n[]\n[{"n":3}]\n'
    )


def test_lines_may_be_longer_than_the_buffer(core):
    long = b"x" * 100_000
    writer = core.LineWriter([b""], b"\n")
    assert writer.lines(3, [core.TextCells([long, b"", b"y"])]) == long + b"\n\ny\n"


def test_a_missing_row_is_an_error(core):
    with pytest.raises(IndexError):
        core.LineWriter([b""], b"").lines(2, [core.NumberCells(array("q", [1]), None, b"")])
