"""The columns of rows, as the design states them: names, types, order."""

from __future__ import annotations

import pytest

from kanalyze.spec.columns import time_name, with_times
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.spec.rows.tables import TABLES

CONTRACT = """
capture string
connection string
connection_number int64
client_ip string
broker_ip string
client_port int32
broker_port int32
client_software_name string
client_software_version string
principal string
wire string
api_key int16
api_version int16
api_name string
correlation_id int32
client_id string
request_start_ns int64
request_end_ns int64
response_start_ns int64
response_end_ns int64
latency_ns int64
total_time_ns int64
request_bytes int64
response_bytes int64
request_packet int64
response_packet int64
status string
error_code int16
error_name string
errors list<struct>
throttle_time_ms int32
partitions list<struct>
record_count int64
record_bytes int64
acks int16
max_wait_ms int32
min_bytes int32
waited bool
group_id string
member_id string
transactional_id string
anomalies list<string>
capture_point string
request_send_ns int64
broker_network_ns int64
retransmission_wait_ns int64
pipeline_wait_ns int64
broker_time_ns int64
response_send_ns int64
client_network_ns int64
retransmitted_packets int64
zero_windows int64
proxy string
proxied_client_ip string
proxied_client_port int32
proxied_target string
waited_ns int64
"""


def test_columns_are_those_of_the_contract_in_its_order_and_newer_ones_come_after_them() -> None:
    contract = CONTRACT.split()
    columns = [part for column in COLUMNS for part in (column.name, column.type)]
    assert columns[: len(contract)] == contract


def test_every_time_and_every_size_has_its_unit_and_every_column_its_meaning() -> None:
    for column in COLUMNS:
        assert column.meaning
        for ending, unit in (("_ns", "ns"), ("_ms", "ms"), ("_bytes", "B")):
            assert (column.unit == unit) == column.name.endswith(ending), column.name


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_points_in_time_have_timestamps_and_durations_have_none(table):
    for column in table.columns:
        assert column.is_time == column.meaning.startswith("time of ")
        assert not column.is_time or (column.type, column.unit) == ("int64", "ns")
        assert not column.is_time or column.name.endswith("_ns")
    names = [column.name for column in with_times(table.columns)]
    assert len(set(names)) == len(names)


def test_a_timestamp_column_follows_its_integer_column():
    names = [column.name for column in with_times(COLUMNS)]
    assert names[names.index("request_start_ns") + 1] == "request_start_time"
    assert [name for name in names if name.endswith("_time")] == [
        *("request_start_time", "request_end_time", "response_start_time", "response_end_time")
    ]
    assert [time_name(name) for name in ("time_ns", "start_ns", "first_time_ns")] == [
        *("time", "start_time", "first_time")
    ]
