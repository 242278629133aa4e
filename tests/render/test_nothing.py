from __future__ import annotations

import pytest

from kanalyze.render.nothing import no_kafka_text

FORCE = "if a broker listens on port N, use --port N"
KEYS = "TLS is not decrypted: give a key log (--keylog FILE)"
WHOLE = "packets were cut short: capture whole ones (tcpdump -s 0)"


@pytest.mark.parametrize(
    ("seen", "hints"),
    [
        ({}, ["there are no packets"]),
        ({"packets": 3}, ["there is no TCP connection"]),
        ({"packets": 3, "connections": 1, "tls_connections": 1}, [KEYS]),
        ({"packets": 3, "connections": 1, "other_connections": 1}, [FORCE]),
        (
            {"packets": 3, "connections": 2, "other_connections": 2, "snapped_bytes": 10},
            [WHOLE, FORCE],
        ),
        (
            {"packets": 3, "connections": 2, "tls_connections": 1, "other_connections": 1},
            [KEYS, FORCE],
        ),
        ({"packets": 3, "connections": 1, "kafka_connections": 1}, []),
    ],
)
def test_hints_depend_on_the_content_of_the_capture(seen, hints):
    names = ("packets", "connections", "tls_connections", "other_connections", "snapped_bytes")
    counts = {name: seen.get(name, 0) for name in names}
    assert no_kafka_text(**counts) == "; ".join(["no Kafka requests found", *hints])
