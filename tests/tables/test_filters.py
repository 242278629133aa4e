from __future__ import annotations

import pickle

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
    parse_status,
)
from tests.support.rows import START_NS, failed, fetch, orphan, partition, row, rows, unanswered

NAMES = {"Produce": 0, "Fetch": 1, "FetchSnapshot": 59, "Heartbeat": 12}


def parse(**conditions) -> RowFilter:
    return RowFilter.parse(api_names=NAMES, **conditions)


@given(rows())
def test_without_conditions_every_row_passes(any_row):
    assert RowFilter().matches(any_row)
    assert RowFilter().passes_all
    assert parse().passes_all


def test_without_conditions_the_block_is_returned_unchanged():
    block = RowBlock.of_rows([row(), fetch()])
    assert RowFilter().matching(block) is block
    assert parse(api=["Fetch"]).matching(block).rows() == [fetch()]


@pytest.mark.parametrize("text", ["Fetch", "fetch", "FETCH", "1"])
def test_an_api_is_selected_by_name_in_any_case_or_by_key(text):
    row_filter = parse(api=[text])
    assert row_filter.matches(fetch())
    assert not row_filter.matches(row())
    assert not row_filter.matches(orphan())


def test_a_key_without_a_name_can_be_requested():
    assert parse(api=["999"]).matches(row(api_key=999, api_name=None))


def test_of_several_values_of_a_condition_one_must_match():
    row_filter = parse(api=["Fetch", "Produce"])
    assert row_filter.matches(fetch())
    assert row_filter.matches(row())


def test_conditions_of_different_kinds_must_all_hold():
    row_filter = parse(api=["Produce"], client_id=["b*"])
    assert row_filter.matches(row(client_id="billing"))
    assert not row_filter.matches(row(client_id="app"))
    assert not row_filter.matches(fetch(client_id="billing"))


def test_an_unknown_api_is_refused_with_the_names_that_are_near():
    with pytest.raises(UsageError, match=r"unknown API: 'Fecth'; did you mean Fetch\?"):
        parse(api=["Fecth"])
    with pytest.raises(UsageError, match=r"unknown API: 'zzz'$"):
        parse(api=["zzz"])


def test_any_api_name_is_accepted_if_no_names_are_given():
    assert RowFilter.parse(api=["MultiFetch"]).matches(row(api_name="MultiFetch"))


@pytest.mark.parametrize(
    ("glob", "client_id", "expected"),
    [
        ("app", "app", True),
        ("app", "App", False),
        ("a*", "app", True),
        ("a?p", "app", True),
        ("[ab]pp", "app", True),
        ("app", "app-1", False),
        ("*", "", True),
        ("", "", True),
        ("*", None, False),
    ],
)
def test_client_ids_are_case_sensitive_globs(glob, client_id, expected):
    assert parse(client_id=[glob]).matches(row(client_id=client_id)) is expected


@pytest.mark.parametrize(
    ("text", "client_ip", "expected"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.10", False),
        ("10.0.0.0/8", "10.9.9.9", True),
        ("10.0.0.1/8", "10.9.9.9", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("2001:db8::/32", "2001:db8::9", True),
        ("2001:DB8:0::9", "2001:db8::9", True),
        ("10.0.0.0/8", "2001:db8::9", False),
    ],
)
def test_client_addresses_are_addresses_or_networks(text, client_ip, expected):
    assert parse(client_ip=[text]).matches(row(client_ip=client_ip)) is expected


@pytest.mark.parametrize("text", ["", "host", "10.0.0.256", "10.0.0.0/33", "1.2.3.4:80"])
def test_an_invalid_address_is_refused(text):
    with pytest.raises(UsageError, match="not an IP address or network"):
        parse(client_ip=[text])


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
    "text", ["", "host", "host:9092", "10.0.0.9:", "10.0.0.9:x", "[::1", "10.0.0.9:0", ":9092"]
)
def test_an_invalid_broker_address_is_refused(text):
    with pytest.raises(UsageError, match="not a"):
        parse_broker(text)


def test_a_broker_without_a_port_matches_every_port():
    assert parse(broker=["10.0.0.9"]).matches(row(broker_port=1))
    assert parse(broker=["10.0.0.9:9092"]).matches(row(broker_port=9092))
    assert not parse(broker=["10.0.0.9:9092"]).matches(row(broker_port=9093))
    assert not parse(broker=["10.0.0.8"]).matches(row())


def test_topics_match_in_partitions_and_in_errors():
    row_filter = parse(topic=["ord*"])
    assert row_filter.matches(row(partitions=[partition("x"), partition("orders")]))
    assert row_filter.matches(failed("orders", 3, "UNKNOWN_TOPIC_OR_PARTITION", partitions=[]))
    assert not row_filter.matches(row(partitions=[partition("x")]))
    assert not row_filter.matches(row(partitions=[]))


def test_a_topic_without_a_name_is_matched_by_its_id():
    by_id = row(partitions=[partition(None, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")])
    assert parse(topic=["AAAAAAAAAAAAAAAAAAAAAQ"]).matches(by_id)
    assert not parse(topic=["orders"]).matches(by_id)


def test_groups_are_globs():
    assert parse(group=["bill*"]).matches(row(group_id="billing"))
    assert not parse(group=["*"]).matches(row(group_id=None))


def passing(row_filter: RowFilter, *rows) -> list[bool]:
    """Return true if rows pass, one by one; as a block they do too."""
    found = [row_filter.matches(row_) for row_ in rows]
    numbers = [number for number, passes in enumerate(found) if passes]
    assert list(row_filter.numbers(RowBlock.of_rows(rows))) == numbers
    return found


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (["ok"], [True, False, False, False]),
        (["UNANSWERED", "orphan-response"], [False, False, True, True]),
        (["malformed"], [False, False, False, False]),
    ],
)
def test_rows_are_selected_by_status(conditions, expected):
    rows = (row(), failed("orders", 6, "NOT_LEADER_OR_FOLLOWER"), unanswered(), orphan())
    assert passing(parse(status=conditions), *rows) == expected


def test_an_error_code_matches_at_every_level():
    rows = (
        failed("orders", 6, "NOT_LEADER_OR_FOLLOWER"),
        failed(
            None, 6, "", error_code=29, errors=[ErrorItem("a", 0, 29, ""), ErrorItem("b", 0, 6, "")]
        ),
        row(error_code=6, error_name="NOT_LEADER_OR_FOLLOWER"),
        row(),
        unanswered(error_code=None),
    )
    assert passing(parse(error=["6"]), *rows) == [True, True, True, False, False]
    assert passing(parse(error=["29", "NONE"]), *rows) == [False, True, False, True, False]


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
    assert parse(error=[text]).matches(failed("orders", code, "", error_code=code))


@pytest.mark.parametrize(
    "text", ["", "-", "NOT_LEADER", "32768", "UNKNOWN_99999", "9" * 5000, "\u00b2"]
)
def test_an_unknown_error_is_refused(text):
    with pytest.raises(UsageError, match=r"^unknown error: "):
        parse_error(text)


def test_similar_names_of_errors_are_suggested():
    with pytest.raises(UsageError, match=r"; did you mean NOT_LEADER_OR_FOLLOWER"):
        parse_error("NOT_LEADER_FOLLOWER")


def test_an_unknown_status_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"^unknown status: 'fine'; there are ok, error, one_way,"):
        parse_status("fine")


PARTITIONS = (
    row(partitions=[partition("orders", 1), partition("clicks", 3)]),
    row(partitions=[partition("orders", 3)]),
    row(partitions=[partition("orders", None)]),
    row(partitions=[partition(None, 3, topic_id="AA-AAAAAAAAAAAAAAAAAAQ")]),
    failed("orders-3", 3, "UNKNOWN_TOPIC_OR_PARTITION", partitions=[]),
    row(partitions=[]),
)


@pytest.mark.parametrize(
    ("conditions", "topics", "expected"),
    [
        (["3"], [], [True, True, False, True, False, False]),
        (["orders-3"], [], [False, True, False, False, False, False]),
        (["orders-3-0"], [], [False, False, False, False, True, False]),
        (["AA-AAAAAAAAAAAAAAAAAAQ-3"], [], [False, False, False, True, False, False]),
        (["3"], ["orders"], [False, True, False, False, False, False]),
        (["o*-1", "clicks-3"], [], [True, False, False, False, False, False]),
        (["1", "0"], ["o*"], [True, False, False, False, True, False]),
        (["orders-3"], ["clicks"], [False] * 6),
    ],
)
def test_a_partition_condition_applies_to_the_selected_topics(conditions, topics, expected):
    assert passing(parse(partition=conditions, topic=topics), *PARTITIONS) == expected


@pytest.mark.parametrize("text", ["", "x", "-3", "orders-", "orders-x", "2147483648", "9" * 5000])
def test_an_invalid_partition_is_refused(text):
    with pytest.raises(UsageError, match=r"^not a partition: "):
        parse_partition(text)


@pytest.mark.parametrize("text", ["0", "2147483647", "orders-3", "a-b-0", "0-1"])
def test_a_partition_is_written_as_it_is_read(text):
    assert str(parse_partition(text)) == text


def test_errors_only_leaves_rows_with_error_codes():
    row_filter = parse(errors=True)
    assert row_filter.matches(failed("orders", 6, "NOT_LEADER_OR_FOLLOWER"))
    assert not row_filter.matches(row())
    assert not row_filter.matches(unanswered())


def test_errors_only_keeps_rows_whose_response_was_not_read():
    row_filter = parse(errors=True)
    no_code = {"status": "malformed", "error_code": None, "error_name": None}
    rows = [
        row(**no_code),
        row(status="malformed"),  # of the request alone
        row(**no_code, response_start_ns=None, latency_ns=None),
        orphan(),
    ]
    expected = [True, False, False, False]
    assert [row_filter.matches(item) for item in rows] == expected
    assert row_filter.numbers(RowBlock.of_rows(rows)) == [0]


def test_slower_than_is_strict_and_leaves_out_fetches_that_waited():
    row_filter = parse(slower_than="2ms")
    assert row_filter.matches(row(latency_ns=2_000_001))
    assert not row_filter.matches(row(latency_ns=2_000_000))
    assert not row_filter.matches(fetch(latency_ns=500_000_000, waited=True))
    assert not row_filter.matches(unanswered())


def test_since_is_inclusive_and_until_is_not():
    row_filter = parse(since="2026-01-01T00:00:00Z", until="2026-01-01T00:00:00.000000002Z")
    times = range(START_NS - 1, START_NS + 3)
    assert [row_filter.matches(row(request_start_ns=time)) for time in times] == [
        False,
        True,
        True,
        False,
    ]


def test_either_time_limit_may_be_omitted():
    assert parse(since="2026-01-01").matches(row())
    assert not parse(since="2026-01-02").matches(row())
    assert parse(until="2026-01-02").matches(row())
    assert not parse(until="2026-01-01").matches(row())


def test_an_orphan_response_counts_by_its_own_time():
    assert parse(since="2026-01-01").matches(orphan())
    assert not parse(since="2026-01-01").matches(orphan(response_start_ns=None))


def test_a_filter_can_be_sent_to_another_process():
    row_filter = parse(api=["Fetch"], client_ip=["10.0.0.0/8"], since="0", broker=["10.0.0.9"])
    received = pickle.loads(pickle.dumps(row_filter))
    assert received.conditions == row_filter.conditions
    assert received.matches(fetch())
    assert not received.matches(row())


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


def test_a_filter_without_times_of_day_needs_no_day():
    row_filter = RowFilter.parse(since="2026-01-31", topic=["t"])
    assert not row_filter.needs_day
    assert row_filter.on_day_of(BEGIN) is row_filter


@pytest.mark.parametrize(
    ("since_ns", "until_ns", "first_ns", "last_ns", "expected"),
    [
        (None, None, 5, 9, (5, 10)),
        (7, 8, 5, 9, (7, 8)),
        (3, 20, 5, 9, (5, 10)),
        (7, 8, None, None, (7, 8)),
        # The beginning of 1970 is a time like any other.
        (0, 0, -5, 9, (0, 0)),
    ],
)
def test_a_filter_is_narrowed_to_the_times_that_both_allow(
    since_ns, until_ns, first_ns, last_ns, expected
):
    narrowed = RowFilter({"since": since_ns, "until": until_ns}).between(first_ns, last_ns)
    assert (narrowed.get("since"), narrowed.get("until")) == expected
