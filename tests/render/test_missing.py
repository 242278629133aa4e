from __future__ import annotations

import pytest

from kanalyze.render.missing import no_kafka_text, undecrypted_text

USE_PORT = "if a broker listens on port N, use --port N"
GIVE_KEY_LOG = "1 TLS connection not decrypted: give a key log (--keylog FILE)"
CAPTURE_WHOLE_PACKETS = "packets were cut short: capture whole ones (tcpdump -s 0)"


@pytest.mark.parametrize(
    ("contents", "hints"),
    [
        ({}, ["there are no packets"]),
        ({"packets": 3}, ["there is no TCP connection"]),
        ({"packets": 3, "connections": 1, "tls_connections": 1}, [GIVE_KEY_LOG]),
        ({"packets": 3, "connections": 1, "other_connections": 1}, [USE_PORT]),
        (
            {"packets": 3, "connections": 2, "other_connections": 2, "snapped_bytes": 10},
            [CAPTURE_WHOLE_PACKETS, USE_PORT],
        ),
        (
            {"packets": 3, "connections": 2, "tls_connections": 1, "other_connections": 1},
            [GIVE_KEY_LOG, USE_PORT],
        ),
        ({"packets": 3, "connections": 1, "kafka_connections": 1}, []),
    ],
)
def test_hints_depend_on_the_content_of_the_capture(contents, hints):
    names = ("connections", "tls_connections", "other_connections", "snapped_bytes")
    quality = {**{name: contents.get(name, 0) for name in names}, "tls_outcomes": {}}
    expected = "; ".join(["no Kafka requests found", *hints])
    assert no_kafka_text(contents.get("packets", 0), quality) == expected


@pytest.mark.parametrize(
    ("encrypted", "outcomes", "expected"),
    [
        (0, {}, None),
        (2, {}, "2 TLS connections not decrypted: give a key log (--keylog FILE)"),
        (0, {"decrypted": 0}, None),
        (0, {"decrypted": 7}, None),
        (
            5,
            {"decrypted": 1, "failed": 1, "no_secret": 4},
            (
                "5 of 6 TLS connections not decrypted: 4 no secret in the key log, "
                "1 the secret in the key log does not fit"
            ),
        ),
        (1, {"decrypted": 0}, "1 of 1 TLS connection not decrypted: 1 not read as TLS"),
        # One that goes on when the captures end is not among the encrypted ones yet.
        (
            0,
            {"decrypted": 2, "no_hello": 1},
            (
                "1 of 3 TLS connections not decrypted: 1 the "
                "handshake was not captured, and no secret fits"
            ),
        ),
    ],
)
def test_undecrypted_connections_are_counted_by_reason(encrypted, outcomes, expected):
    assert undecrypted_text(encrypted, outcomes) == expected
