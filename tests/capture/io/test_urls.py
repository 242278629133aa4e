from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.capture.io.stores import is_url, scrubbed, shown_url, split_url

SECRET = "geheim"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"s3://key:{SECRET}@bucket/a/b.pcap?region=x", "s3://bucket/a/b.pcap"),
        (f"https://host:8443/a.pcap?X-Amz-Signature={SECRET}", "https://host:8443/a.pcap"),
        (
            f"abfs://box:{SECRET}@account.dfs.core.windows.net/a",
            "abfs://box@account.dfs.core.windows.net/a",
        ),
        (f"abfss://:{SECRET}@account/a", "abfss://account/a"),
        (f"hdfs://user:{SECRET}@node:9000/a@b", "hdfs://node:9000/a@b"),
        (f"gs://bucket?access_token={SECRET}", "gs://bucket"),
        ("file:///tmp/a%20b#1.pcap", "file:///tmp/a%20b#1.pcap"),
    ],
)
def test_credentials_are_never_shown(url, shown):
    assert shown_url(url) == shown
    assert SECRET not in shown


def test_a_url_is_distinguished_from_a_path():
    assert is_url("s3://bucket/key")
    assert is_url("abfss://x")
    for path in ("a.pcap", "/a//b", "./s3://x", "c:\\x", "://x", "-"):
        assert not is_url(path)


@given(st.text("abc:/@?*[ ]%#", max_size=30))
def test_a_url_is_rebuilt_from_its_parts(rest):
    url = f"s3://{rest}"
    parts = split_url(url)
    assert parts.with_path(parts.path) == url


def test_secrets_are_removed_from_messages():
    url = f"s3://key:{SECRET}@bucket/a.pcap?one=1x1&two=a%2Fb"
    text = f"cannot open {url}: {SECRET} of key:{SECRET}, 1x1, a/b, a%2Fb, bucket"
    assert (
        scrubbed(text, url) == "cannot open s3://bucket/a.pcap: *** of ***, ***, ***, ***, bucket"
    )
