from __future__ import annotations

import pytest

from kanalyze.render.nothing import no_kafka_text

USE_PORT = "if a broker listens on port N, use --port N"
GIVE_KEY_LOG = "TLS is not decrypted: give a key log (--keylog FILE)"
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
    names = ("packets", "connections", "tls_connections", "other_connections", "snapped_bytes")
    counts = {name: contents.get(name, 0) for name in names}
    assert no_kafka_text(**counts) == "; ".join(["no Kafka requests found", *hints])
