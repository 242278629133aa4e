"""Records of the controllers' log are shown only if they are known to hold no secret."""

from __future__ import annotations

import pytest

from kanalyze.decoding.metadata_log import holds_credentials


def record(api_key: int, *texts: str, frame_version: int = 1) -> bytes:
    """Return frame version, API key, version 0, a resource type, and compact strings."""
    parts = [bytes([len(text) + 1]) + text.encode() for text in texts]
    return bytes([frame_version, api_key, 0, *([4] if texts else [])]) + b"".join(parts)


@pytest.mark.parametrize("api_key", [2, 3, 5])  # a topic, a partition, a change of a partition
def test_records_of_topics_are_shown(api_key: int) -> None:
    assert not holds_credentials(record(api_key))


@pytest.mark.parametrize("api_key", [10, 11, 127])  # a token, a SCRAM credential, unknown
def test_credentials_and_unknown_records_are_not_shown(api_key: int) -> None:
    assert holds_credentials(record(api_key))


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("retention.ms", "1000", False),
        ("ssl.keystore.password", "hunter2", True),
        ("sasl.jaas.config", "x", True),
        ("metric.endpoint", "http://me:hunter2@host/", True),
    ],
)
def test_a_configuration_is_shown_unless_it_is_a_secret(
    name: str, value: str, is_secret: bool
) -> None:
    assert holds_credentials(record(4, "orders", name, value)) is is_secret


def test_unreadable_values_are_not_shown() -> None:
    whole = record(4, "orders", "retention.ms", "1000")
    assert all(holds_credentials(whole[:size]) for size in range(len(whole)))
    assert holds_credentials(record(2, frame_version=9))
    assert holds_credentials(b"\xff" * 12)
