from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from kanalyze.common.times import format_time
from kanalyze.errors import UsageError
from kanalyze.spec.rows.requests import ErrorItem
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.filters import (
    BrokerAddress,
    RowFilter,
    parse_broker,
    parse_error,
    parse_partition,
)
from tests.support.cases import for_each
from tests.support.row_blocks import matches
from tests.support.rows import START_NS, failed, fetch, orphan, partition, row, rows, unanswered

if TYPE_CHECKING:
    from kanalyze.spec.rows.requests import Row

NAMES = {"Produce": 0, "Fetch": 1, "FetchSnapshot": 59, "Heartbeat": 12}


def parse(**conditions) -> RowFilter:
    return RowFilter.parse(api_names=NAMES, **conditions)


@given(rows())
def test_without_conditions_every_row_passes(any_row):
    assert matches(RowFilter(), any_row)
    assert RowFilter().passes_all
    assert parse().passes_all


ID = "AA-AAAAAAAAAAAAAAAAAAQ"
NOT_READ = {"status": "malformed", "error_code": None, "error_name": None}
TWO_ERRORS = failed(
    None, 6, "", error_code=29, errors=[ErrorItem("a", 0, 29, ""), ErrorItem("b", 0, 6, "")]
)
FAILED = failed("orders", 6, "NOT_LEADER_OR_FOLLOWER")
ROWS = {
    "produce": row(),
    "fetch": fetch(),
    "orphan": orphan(),
    "failed": FAILED,
    "unanswered": unanswered(),
}
PARTITIONS = (
    row(partitions=[partition("orders", 1), partition("clicks", 3)]),
    row(partitions=[partition("orders", 3)]),
    row(partitions=[partition("orders", None)]),
    row(partitions=[partition(None, 3, topic_id=ID)]),
    failed("orders-3", 3, "UNKNOWN_TOPIC_OR_PARTITION", partitions=[]),
    row(partitions=[]),
)


def names(*changes: str | None, column: str = "client_id") -> list[Row]:
    return [row(**{column: value}) for value in changes]


CONNECTIONS = names("10.0.0.7:51>10.0.0.2:92", "10.0.0.7:5>[::1]:92", None, column="connection")
CONNECTIONS_FOUND = [
    ("10.0.0.7:51>10.0.0.2:92", "100"),
    ("10.0.0.7:51", "100"),
    ("10.0.0.7:5", "010"),
    ("10.0.0.2:92", "000"),
    ("10.0.0.7:5*", "000"),
]
PACKETS = [
    row(request_packet=request, response_packet=response)
    for request, response in ((7, 8), (1, 9), (8, None), (None, 9))
]
CORRELATION_IDS = [row(correlation_id=number) for number in (-1, 2**31 - 1, 1, None)]
WITH_ANOMALIES = [row(anomalies=kinds) for kinds in (["lost_bytes", "x"], ["malformed_body"], [])]


@for_each(
    "case",
    [
        # APIs: a name in any case, or a key.
        *(({"api": [text]}, ROWS.values(), "01001") for text in ("Fetch", "fetch", "FETCH", "1")),
        ({"api": ["Fetch", "Produce"]}, ROWS.values(), "11011"),
        ({"api": ["999"]}, [row(api_key=999, api_name=None)], "1"),
        ({"api": ["Produce"], "client_id": ["a*"]}, [row(), fetch(), row(client_id="b")], "100"),
        # Client ids and groups are globs, case-sensitive.
        ({"client_id": ["app"]}, names("app", "App", "app-1", None), "1000"),
        ({"client_id": ["a*"]}, names("app", "b"), "10"),
        ({"client_id": ["a?p"]}, names("app", "ap"), "10"),
        ({"client_id": ["[ab]pp"]}, names("app", "cpp"), "10"),
        ({"client_id": ["*"]}, names("", None), "10"),
        ({"client_id": [""]}, names("", "a"), "10"),
        ({"principal": ["a*", "b"]}, names("alice", "b", "B", None, column="principal"), "1100"),
        ({"group": ["bill*"]}, names("billing", "bill", "x", None, column="group_id"), "1100"),
        # Addresses, or networks of them.
        ({"client_ip": ["10.0.0.1"]}, names("10.0.0.1", "10.0.0.10", column="client_ip"), "10"),
        (
            {"client_ip": ["10.0.0.0/8"]},
            names("10.9.9.9", "11.0.0.1", "::1", column="client_ip"),
            "100",
        ),
        ({"client_ip": ["10.0.0.1/8"]}, names("10.9.9.9", column="client_ip"), "1"),
        ({"client_ip": ["2001:db8::/32"]}, names("2001:db8::9", column="client_ip"), "1"),
        ({"client_ip": ["2001:DB8:0::9"]}, names("2001:db8::9", column="client_ip"), "1"),
        # A broker without a port has every port.
        ({"broker": ["10.0.0.9"]}, [row(broker_port=1), row(broker_ip="10.0.0.8")], "10"),
        ({"broker": ["10.0.0.9:9092"]}, [row(broker_port=9092), row(broker_port=9093)], "10"),
        # A connection, or all of a client's end.
        *(({"connection": [text]}, CONNECTIONS, found) for text, found in CONNECTIONS_FOUND),
        # The packets that messages begin in; a null is no packet.
        ({"packet": ["7", "9"]}, PACKETS, "1101"),
        ({"packet": ["0"]}, PACKETS, "0000"),
        ({"correlation_id": ["-1", "2147483647"]}, CORRELATION_IDS, "1100"),
        # Any of the kinds.
        ({"anomaly": ["malformed_body", "lost_bytes"]}, WITH_ANOMALIES, "110"),
        # Topics of partitions and of errors; one without a name has its id.
        ({"topic": ["o*"]}, PARTITIONS, "111010"),
        ({"topic": [ID]}, PARTITIONS, "000100"),
        ({"topic": ["orders"]}, PARTITIONS, "111000"),
        # Partitions, of the selected topics.
        ({"partition": ["3"]}, PARTITIONS, "110100"),
        ({"partition": ["orders-3"]}, PARTITIONS, "010000"),
        ({"partition": ["orders-3-0"]}, PARTITIONS, "000010"),
        ({"partition": [f"{ID}-3"]}, PARTITIONS, "000100"),
        ({"partition": ["3"], "topic": ["orders"]}, PARTITIONS, "010000"),
        ({"partition": ["o*-1", "clicks-3"]}, PARTITIONS, "100000"),
        ({"partition": ["1", "0"], "topic": ["o*"]}, PARTITIONS, "100010"),
        ({"partition": ["orders-3"], "topic": ["clicks"]}, PARTITIONS, "000000"),
        # Statuses, in any case.
        ({"status": ["ok"]}, ROWS.values(), "11000"),
        ({"status": ["UNANSWERED", "orphan-response"]}, ROWS.values(), "00101"),
        ({"status": ["malformed"]}, ROWS.values(), "00000"),
        # Error codes, at every level.
        ({"error": ["6"]}, [FAILED, TWO_ERRORS, row(error_code=6), row(), unanswered()], "11100"),
        ({"error": ["29", "NONE"]}, [FAILED, TWO_ERRORS, row(), unanswered()], "0110"),
        ({"errors": True}, ROWS.values(), "00010"),
        # A response that was not read may have an error; a request alone has none.
        ({"errors": True}, [row(**NOT_READ), row(status="malformed")], "10"),
        ({"errors": True}, [row(**NOT_READ, response_start_ns=None, latency_ns=None)], "0"),
        # Strictly slower; fetches that waited on purpose are not.
        ({"slower_than": "2ms"}, [row(latency_ns=2_000_001), *ROWS.values()], "100000"),
        ({"slower_than": "2ms"}, [fetch(latency_ns=500_000_000, waited=True)], "0"),
        # From a time on, until before another; either may be left out.
        (
            {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00.000000002Z"},
            [row(request_start_ns=START_NS + after) for after in (-1, 0, 1, 2)],
            "0110",
        ),
        ({"since": "2026-01-01"}, [row(), orphan(), orphan(response_start_ns=None)], "110"),
        ({"since": "2026-01-02"}, [row()], "0"),
        ({"until": "2026-01-02"}, [row()], "1"),
        ({"until": "2026-01-01"}, [row()], "0"),
    ],
)
def test_rows_match_the_conditions_one_by_one_and_as_a_block(case: Any) -> None:
    conditions, some_rows, expected = case
    row_filter = parse(**conditions)
    numbers = [number for number, digit in enumerate(expected) if digit == "1"]
    assert list(row_filter.numbers(RowBlock.of_rows(list(some_rows)))) == numbers
    assert "".join(str(int(matches(row_filter, each))) for each in some_rows) == expected


@for_each(
    "case",
    [
        ({"api": ["Fecth"]}, r"unknown API: 'Fecth'; did you mean Fetch\?"),
        ({"api": ["zzz"]}, r"unknown API: 'zzz'$"),
        *(
            ({"client_ip": [text]}, "not an IP address or network")
            for text in ("", "host", "10.0.0.256", "10.0.0.0/33", "1.2.3.4:80")
        ),
        *(
            ({"broker": [text]}, "not a")
            for text in ("", "host", "host:9092", "10.0.0.9:", "10.0.0.9:x", "[::1", "10.0.0.9:0")
        ),
        *(
            ({"error": [text]}, "unknown error: ")
            for text in ("", "-", "NOT_LEADER", "32768", "UNKNOWN_99999", "9" * 5000, "\u00b2")
        ),
        ({"error": ["NOT_LEADER_FOLLOWER"]}, "did you mean NOT_LEADER_OR_FOLLOWER"),
        ({"status": ["fine"]}, "unknown status: 'fine'; there are ok, error, one_way,"),
        *(
            ({name: [text]}, "not a number: ")
            for name in ("packet", "correlation_id")
            for text in ("", "x", "1.5", "--1", "\u00b2", "9" * 5000)
        ),
        ({"anomaly": ["malformed"]}, "unknown kind of anomaly: 'malformed'"),
        *(
            ({"partition": [text]}, "not a partition: ")
            for text in ("", "x", "-3", "orders-", "orders-x", "2147483648", "9" * 5000)
        ),
    ],
)
def test_invalid_conditions_are_refused(case: Any) -> None:
    conditions, reason = case
    with pytest.raises(UsageError, match=reason):
        parse(**conditions)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.9", ("10.0.0.9", None)),
        ("10.0.0.9:9092", ("10.0.0.9", 9092)),
        ("2001:DB8::9", ("2001:db8::9", None)),
        ("[2001:db8::9]", ("2001:db8::9", None)),
        ("[2001:db8::9]:9092", ("2001:db8::9", 9092)),
    ],
)
def test_brokers_are_addresses_with_or_without_a_port(text, expected):
    assert parse_broker(text) == BrokerAddress(*expected)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("6", 6),
        ("-1", -1),
        ("not_leader_or_follower", 6),
        ("UNKNOWN_SERVER_ERROR", -1),
        ("none", 0),
        ("999", 999),
        ("UNKNOWN_999", 999),
        ("-32768", -(1 << 15)),
    ],
)
def test_an_error_is_selected_by_name_or_code(text, code):
    assert parse_error(text) == code
    assert matches(parse(error=[text]), failed("orders", code, "", error_code=code))


@pytest.mark.parametrize("text", ["0", "2147483647", "orders-3", "a-b-0", "0-1"])
def test_a_partition_is_written_as_it_is_read(text):
    assert str(parse_partition(text)) == text


def test_a_filter_can_be_sent_to_another_process():
    row_filter = parse(api=["Fetch"], client_ip=["10.0.0.0/8"], since="0", broker=["10.0.0.9"])
    received = pickle.loads(pickle.dumps(row_filter))
    assert received.conditions == row_filter.conditions
    assert matches(received, fetch())
    assert not matches(received, row())


DAY = 86_400 * 10**9
BEGIN = 20_000 * DAY
"""Midnight of any day."""


def of_day(text: str) -> int:
    hours, minutes = map(int, text.split(":"))
    return (hours * 60 + minutes) * 60 * 10**9


@pytest.mark.parametrize(
    ("first", "since", "until", "expected"),
    [
        ("22:40", "22:46", None, ("22:46", None)),
        ("22:40", "22:46", "23:00", ("22:46", "23:00")),
        ("22:46", "22:46", None, ("22:46", None)),
        # Earlier on that day, so that all packets are later.
        ("22:40", "22:00", None, ("22:00", None)),
        ("09:00", "00:00", None, ("00:00", None)),
        ("09:00", None, "08:00", (None, "08:00")),
        # Past midnight.
        ("22:00", "00:30", "01:30", ("24:30", "25:30")),
        ("22:00", "23:30", "00:30", ("23:30", "24:30")),
        ("09:00", "23:30", "00:30", ("23:30", "24:30")),
        ("22:00", None, "02:00", (None, "26:00")),
        ("09:00", "10:00", "10:00", ("10:00", "34:00")),
    ],
)
def test_a_time_of_day_is_of_the_day_of_the_first_packet(first, since, until, expected):
    row_filter = RowFilter.parse(since=since, until=until)
    assert row_filter.needs_day
    assert not row_filter.passes_all
    on_day = row_filter.on_day_of(BEGIN + of_day(first))
    assert on_day.on_day_of(BEGIN) is on_day
    assert not on_day.needs_day
    times = [None if text is None else BEGIN + of_day(text) for text in expected]
    assert [on_day.get("since"), on_day.get("until")] == times
    assert not on_day.passes_all


def test_a_time_of_day_may_be_combined_with_a_date():
    since_ns = BEGIN + 3 * DAY + of_day("23:30")
    row_filter = RowFilter.parse(since=format_time(since_ns), until="00:15", topic=["t"])
    on_day = row_filter.on_day_of(BEGIN + 3 * DAY)
    assert on_day.get("since") == since_ns
    assert on_day.get("until") == BEGIN + 4 * DAY + of_day("00:15")
    assert on_day.get("topic") == ("t",)
