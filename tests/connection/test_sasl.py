"""Who logs in, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.connection.sasl import principal_of


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
def test_the_user_is_named(mechanism: str, token: bytes, user: str) -> None:
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
def test_where_no_user_is_named_there_is_none(mechanism: str | None, token: bytes) -> None:
    assert principal_of(mechanism, token) is None


@given(st.text("abcdefgh", min_size=1), st.text("STUVWXYZ", min_size=4))
def test_a_password_is_never_in_the_name(user: str, password: str) -> None:
    name = principal_of("PLAIN", f"\0{user}\0{password}".encode())
    assert name == user
    assert password not in name


@given(st.sampled_from(["PLAIN", "SCRAM-SHA-256", None]), st.binary(max_size=80))
def test_any_bytes_give_a_name_or_none(mechanism: str | None, token: bytes) -> None:
    assert isinstance(principal_of(mechanism, token), str | None)
