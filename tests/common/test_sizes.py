from __future__ import annotations

import pytest

from kanalyze.common.sizes import parse_size
from kanalyze.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size_bytes"),
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
def test_a_size_is_a_number_with_or_without_a_unit(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "B", "M", "1.5G", "-1", "1 G x", "KM", "²"])
def test_a_text_that_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match="not a size"):
        parse_size(text)
