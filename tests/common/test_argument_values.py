"""Arguments of Python users become the texts and numbers that they stand for."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from ipaddress import ip_address, ip_network
from pathlib import Path

import numpy as np
import pytest

from kanalyze.common import argument_values as values
from kanalyze.errors import UsageError

CET = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ()),
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        (iter("ab"), ("a", "b")),
        (0, ("0",)),
        ([np.int16(18), "Fetch"], ("18", "Fetch")),
    ],
)
def test_one_value_or_several_become_a_tuple_of_texts(given, expected):
    assert values.texts("api", given, numbers=True) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC).replace(tzinfo=None),
            "2026-01-02T03:04:05.000006000Z",
        ),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=CET), "2026-01-02T02:04:05.000000000Z"),
        (date(2026, 1, 2), "2026-01-02"),
        (1_700_000_000, "1700000000"),
        (1.5, "1.5"),
        (Decimal("1700000000.123456789"), "1700000000.123456789"),
        ("-5m", "-5m"),
        (None, None),
    ],
)
def test_a_time_without_a_zone_is_utc_and_no_digit_is_lost(given, expected):
    assert values.time_text("since", given) == expected


@pytest.mark.parametrize(
    "given", [True, -1, float("nan"), float("inf"), b"x", datetime(1, 1, 1, tzinfo=CET)]
)
def test_a_value_that_is_no_time_is_refused(given):
    with pytest.raises(UsageError, match="since: not a time"):
        values.time_text("since", given)


def test_a_duration_has_a_unit():
    assert values.duration_text("slower_than", timedelta(microseconds=1500)) == "1500000ns"
    with pytest.raises(UsageError, match="has no unit"):
        values.duration_text("slower_than", 5)
    for given in (timedelta(seconds=-1), True):
        with pytest.raises(UsageError, match="not a duration"):
            values.duration_text("slower_than", given)


def test_a_network_is_one_condition_and_not_all_its_addresses():
    assert values.address_texts("client", ip_network("10.0.0.0/30")) == ("10.0.0.0/30",)
    both = [ip_address("::1"), "10.0.0.1"]
    assert values.address_texts("client", both) == ("::1", "10.0.0.1")


@pytest.mark.parametrize("given", [0, 65536, "0", "\u0669", "9092x", "", True, 1.0])
def test_a_value_that_is_no_port_is_refused(given):
    assert values.ports("port", ["9092", 1, np.uint16(65535)]) == (9092, 1, 65535)
    with pytest.raises(UsageError, match="port: not a TCP port"):
        values.ports("port", given)


def test_booleans_and_numbers_are_not_accepted_for_each_other():
    assert values.truth("errors", False) is False
    for call in (
        lambda: values.truth("errors", 1),
        lambda: values.count("jobs", True, 9),
        lambda: values.texts("api", True, numbers=True),
        lambda: values.size_bytes("memory", True),
    ):
        with pytest.raises(UsageError):
            call()


def test_a_count_outside_its_range_is_refused():
    assert [values.count("jobs", number, 9) for number in (1, 9)] == [1, 9]
    for number in (0, 10, -1):
        with pytest.raises(UsageError, match="from 1 to 9"):
            values.count("jobs", number, 9)


def test_huge_numbers_are_refused_in_one_short_line():
    for call in (values.number_texts, lambda name, value: values.texts(name, value, numbers=True)):
        with pytest.raises(UsageError) as caught:
            call("partition", 10**4000)
        assert len(str(caught.value)) < 120


def test_a_value_in_a_message_is_one_short_line():
    assert values.shown("a\nb") == r"'a\nb'"
    assert len(values.shown("x" * 1000)) == 63


def test_paths_become_texts_and_sizes_numbers_of_bytes():
    assert values.path_text("file", Path("a/b")) == "a/b"
    assert values.path_texts("files", ["a", Path("b")]) == ("a", "b")
    assert values.size_bytes("memory", "2G") == 2 << 30
    with pytest.raises(UsageError, match="memory: "):
        values.size_bytes("memory", "2 apples")


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    path = tmp_path / "missing"
    with (
        pytest.raises(UsageError, match=f"^{re.escape(str(path))}: No such file"),
        values.opening(path),
    ):
        path.read_bytes()
    with pytest.raises(UsageError, match=r"^not a path: 'a\\x00'$"), values.opening("a\0"):
        Path("a\0").read_bytes()
