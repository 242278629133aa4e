"""A user may name brokers by port, by address or by both."""

from __future__ import annotations

import pytest

from kanalyze.errors import UsageError
from kanalyze.runtime.settings import broker_side


def test_without_ports_and_addresses_no_broker_is_known():
    assert broker_side([], []) is None


@pytest.mark.parametrize(
    ("ports", "brokers", "ip", "port", "expected"),
    [
        ([9092], [], "10.0.0.1", 9092, True),
        ([9092], [], "10.0.0.1", 9093, False),
        ([], ["10.0.0.1"], "10.0.0.1", 1, True),
        ([], ["10.0.0.1:9092"], "10.0.0.1", 9092, True),
        ([], ["10.0.0.1:9092"], "10.0.0.1", 9093, False),
        ([], ["10.0.0.1:9092"], "10.0.0.2", 9092, False),
        ([9093], ["10.0.0.1:9092"], "10.0.0.2", 9093, True),
        ([], ["[::1]:9092"], "::1", 9092, True),
        ([], ["::1"], "::1", 5, True),
    ],
)
def test_a_broker_is_recognized_by_port_or_by_address(ports, brokers, ip, port, expected):
    assert broker_side(ports, brokers)(ip, port) is expected


@pytest.mark.parametrize(
    ("ports", "brokers"), [([0], []), ([65536], []), ([], ["nowhere:x"]), ([], [":9092"])]
)
def test_an_invalid_port_or_address_is_refused(ports, brokers):
    with pytest.raises(UsageError):
        broker_side(ports, brokers)
