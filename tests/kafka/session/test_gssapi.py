"""Tokens that open a login by GSSAPI, and bytes that only begin like one."""

from __future__ import annotations

import pytest

from kanalyze.kafka.session.gssapi import looks_like_gssapi, names_mechanism

GSSAPI_TOKEN = b"\x60\x0e\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00\x6e"


def test_a_gssapi_token_is_recognized_by_its_tag_its_length_and_its_mechanism() -> None:
    assert looks_like_gssapi(GSSAPI_TOKEN, len(GSSAPI_TOKEN))
    long = b"\x60\x82\x01\x2c" + GSSAPI_TOKEN[2:].ljust(300, b"\0")
    assert looks_like_gssapi(long[:20], len(long))


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (GSSAPI_TOKEN, len(GSSAPI_TOKEN) + 1),
        (GSSAPI_TOKEN[:7], len(GSSAPI_TOKEN)),
        (b"\x61" + GSSAPI_TOKEN[1:], len(GSSAPI_TOKEN)),
        (GSSAPI_TOKEN[:2] + b"\x04" + GSSAPI_TOKEN[3:], len(GSSAPI_TOKEN)),
        (GSSAPI_TOKEN[:3] + b"\x7f" + GSSAPI_TOKEN[4:], len(GSSAPI_TOKEN)),
        (b"\x60\xff" + GSSAPI_TOKEN[2:], len(GSSAPI_TOKEN)),
    ],
)
def test_bytes_that_only_begin_like_a_gssapi_token_are_none(head: bytes, size: int) -> None:
    assert not looks_like_gssapi(head, size)


def test_a_usual_mechanism_is_recognized_whatever_the_length() -> None:
    assert names_mechanism(GSSAPI_TOKEN)
    assert names_mechanism(GSSAPI_TOKEN + b"more")
    assert not names_mechanism(GSSAPI_TOKEN[:4] + b"\x2b" + GSSAPI_TOKEN[5:])
