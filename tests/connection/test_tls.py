"""A TLS stream by its first bytes."""

from __future__ import annotations

import pytest

from kanalyze.connection.tls import looks_like_tls


@pytest.mark.parametrize("head", ["1603010200", "1603030050", "1503030002", "1703030013"])
def test_records_are_known_by_type_version_and_length(head: str) -> None:
    assert looks_like_tls(bytes.fromhex(head))


@pytest.mark.parametrize(
    "head",
    [
        "",
        "160301",
        "1604010200",
        "1803030050",
        "1603050050",
        "1603010000",
        "160301ffff",
        "0000002c00",
    ],
)
def test_anything_else_is_not(head: str) -> None:
    assert not looks_like_tls(bytes.fromhex(head))
