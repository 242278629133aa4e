"""The columns of rows, as the design states them: names, types, order.

Lines of text describe fields: their kind, unit, and what null means.
"""

from __future__ import annotations

import pytest

from kanalyze.api.tables import fill
from kanalyze.errors import UsageError
from kanalyze.queries.database import Database, QueryError
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.columns import TYPES, time_name, with_times
from kanalyze.spec.fields import fields_of
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.spec.rows.tables import ALWAYS, SQL_TABLES, TABLES, choose_tables, stored_columns
from tests.support.captures import path

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


def test_a_line_is_a_field_and_deeper_lines_are_the_fields_in_it() -> None:
    whole, last = fields_of(
        """
        latency object? how long; null: unknown
            p50 integer[ns]? the median, \
                by nearest rank; null: none
            kind text(a|b) which
        last? count at the end
        """
    )
    assert (whole.name, whole.kind, whole.nullable) == ("latency", "object", True)
    p50, kind = whole.fields
    assert (p50.kind, p50.unit, p50.nullable) == ("integer", "ns", True)
    assert p50.meaning == "the median, by nearest rank; null: none"
    assert (kind.detail, kind.nullable) == ("a|b", False)
    assert (last.name, last.optional, last.fields) == ("last", True, ())


def test_shared_lines_stand_where_they_are_named() -> None:
    shared = {"sizes": "sent list bytes\n    - count one\nreceived count bytes"}
    [line] = fields_of("line object one\n    ...sizes?", shared)
    assert [(field.name, field.optional) for field in line.fields] == [
        ("sent", True),
        ("received", True),
    ]
    assert [(item.name, item.optional) for item in line.fields[0].fields] == [("-", False)]
    [line] = fields_of("line object one\n    ...sizes", shared)
    assert not any(field.optional for field in line.fields)


def test_a_line_that_is_no_field_is_an_error() -> None:
    with pytest.raises(ValueError, match="no field: just-words"):
        fields_of("just-words")


def test_tables_are_known_by_their_names() -> None:
    assert [table.name for table in TABLES.values()] == list(TABLES)
    assert set(ALWAYS) <= set(TABLES)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_column_has_its_own_name_and_a_meaning(table) -> None:
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    for column in table.columns:
        assert all(part.meaning for part in (column, *column.fields)), column.name


def test_where_rows_are_stored_requests_have_numbers() -> None:
    (number, *columns) = stored_columns("requests")
    assert (number.name, tuple(columns)) == ("request_id", TABLES["requests"].columns)
    assert stored_columns("groups") == TABLES["groups"].columns


def test_selected_tables_are_the_named_ones_and_the_default_ones() -> None:
    assert [table.name for table in choose_tables()] == list(ALWAYS)
    assert [table.name for table in choose_tables(["requests", *TABLES])] == list(TABLES)


def test_an_unknown_table_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"^unknown table: 'nope'; there are requests, "):
        choose_tables(["nope"])


def test_declared_columns_of_tables_and_views_are_those_of_sql() -> None:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([path("groups")]), TABLES)
        for table in SQL_TABLES.values():
            found = database.ask(f"DESCRIBE {table.name}").to_pylist()
            names = [column.name for column in table.columns]
            assert [line["column_name"] for line in found] == names
            for line, column in zip(found, table.columns, strict=True):
                if column.fields:
                    assert line["column_type"].startswith("STRUCT(")
                elif column.type == "list<string>":
                    assert line["column_type"] == "VARCHAR[]"
                else:
                    assert line["column_type"] == TYPES[column.type].sql, column.name
                if not column.nullable:
                    empty = f'SELECT count(*) AS n FROM {table.name} WHERE "{column.name}" IS NULL'
                    assert database.ask(empty).to_pylist() == [{"n": 0}], column.name


def test_a_table_that_is_not_selected_does_not_exist() -> None:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([path("groups")]), ["groups"])
        assert database.ask("SELECT count(*) > 0 AS some FROM groups").to_pylist() == [
            {"some": True}
        ]
        with pytest.raises(QueryError, match="metadata does not exist"):
            database.ask("FROM metadata")
