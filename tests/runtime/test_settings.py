"""Brokers that a user names: by port, by address, by both."""

from __future__ import annotations

import pytest

from kanalyze.errors import UsageError
from kanalyze.runtime.settings import broker_side


def test_without_a_name_nothing_is_known_of_brokers():
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
def test_a_broker_is_one_of_a_port_or_of_an_address(ports, brokers, ip, port, expected):
    assert broker_side(ports, brokers)(ip, port) is expected


@pytest.mark.parametrize(
    ("ports", "brokers"), [([0], []), ([65536], []), ([], ["nowhere:x"]), ([], [":9092"])]
)
def test_what_is_no_broker_is_refused(ports, brokers):
    with pytest.raises(UsageError):
        broker_side(ports, brokers)
