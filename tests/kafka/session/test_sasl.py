"""The user name of a login is read from its tokens, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.session.sasl import looks_like_gssapi, principal_of


@pytest.mark.parametrize(
    ("mechanism", "token", "user"),
    [
        ("PLAIN", b"\0alice\0secret", "alice"),
        ("PLAIN", b"admin\0alice\0secret", "alice"),
        ("PLAIN", b"\0alice\0", "alice"),
        ("PLAIN", "\0ülrike\0x".encode(), "ülrike"),
        ("SCRAM-SHA-256", b"n,,n=bob,r=abc", "bob"),
        ("SCRAM-SHA-512", b"n,a=x,n=b=2Co=3Db,r=abc", "b,o=b"),
        ("SCRAM-SHA-256", b"y,,n=bob,r=abc", "bob"),
    ],
)
def test_the_user_is_read_from_the_token(mechanism: str, token: bytes, user: str) -> None:
    assert principal_of(mechanism, token) == user


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        (None, b"\0alice\0secret"),
        ("GSSAPI", b"\x60\x82\x02"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer token\x01\x01"),
        ("PLAIN", b""),
        ("PLAIN", b"alice"),
        ("PLAIN", b"\0\0secret"),
        ("PLAIN", b"\0" + b"a" * 2000 + b"\0x"),
        ("SCRAM-SHA-256", b"c=biws,r=abc,p=proof"),
        ("SCRAM-SHA-256", b""),
    ],
)
def test_a_token_without_a_user_gives_none(mechanism: str | None, token: bytes) -> None:
    assert principal_of(mechanism, token) is None


@given(st.text("abcdefgh", min_size=1), st.text("STUVWXYZ", min_size=4))
def test_a_password_is_never_in_the_user_name(user: str, password: str) -> None:
    name = principal_of("PLAIN", f"\0{user}\0{password}".encode())
    assert name == user
    assert password not in name


@given(st.sampled_from(["PLAIN", "SCRAM-SHA-256", None]), st.binary(max_size=80))
def test_any_bytes_give_a_user_name_or_none(mechanism: str | None, token: bytes) -> None:
    assert isinstance(principal_of(mechanism, token), str | None)


TOKEN = b"\x60\x0e\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00\x6e"


def test_a_gssapi_token_is_recognized_by_its_tag_its_length_and_its_mechanism() -> None:
    assert looks_like_gssapi(TOKEN, len(TOKEN))
    long = b"\x60\x82\x01\x2c" + TOKEN[2:].ljust(300, b"\0")
    assert looks_like_gssapi(long[:20], len(long))


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (TOKEN, len(TOKEN) + 1),
        (TOKEN[:7], len(TOKEN)),
        (b"\x61" + TOKEN[1:], len(TOKEN)),
        (TOKEN[:2] + b"\x04" + TOKEN[3:], len(TOKEN)),
        (TOKEN[:3] + b"\x7f" + TOKEN[4:], len(TOKEN)),
        (b"\x60\xff" + TOKEN[2:], len(TOKEN)),
    ],
)
def test_bytes_that_only_begin_like_a_gssapi_token_are_none(head: bytes, size: int) -> None:
    assert not looks_like_gssapi(head, size)
