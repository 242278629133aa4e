from __future__ import annotations

import pytest

from kanalyze.common.sizes import parse_size
from kanalyze.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("1K", 1 << 10),
        ("256m", 256 << 20),
        ("256MB", 256 << 20),
        ("256MiB", 256 << 20),
        (" 2g ", 2 << 30),
        ("3T", 3 << 40),
    ],
)
def test_a_number_and_a_unit(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "B", "M", "1.5G", "-1", "1 G x", "KM", "²"])
def test_what_is_no_size(text):
    with pytest.raises(UsageError, match="not a size"):
        parse_size(text)
