from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.analysis.row import COLUMNS
from kanalyze.export.arrow import frame_of, record_batch, table_of
from kanalyze.export.schema import arrow_schema, choose_columns
from tests.support.rows import START_NS, failed, orphan, plain_traffic, row, rows


class Source:
    def __init__(self, *batches):
        self._batches = batches

    def batches(self):
        return iter(self._batches)


def plain(item) -> dict:
    """Return a row as Arrow gives it back."""
    made = item._asdict()
    for name in ("errors", "partitions"):
        made[name] = [part._asdict() for part in made[name]]
    return made


def without_surrogates(value):
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {name: without_surrogates(item) for name, item in value.items()}
    return value


@settings(max_examples=50)
@given(st.lists(rows(), max_size=5))
def test_a_batch_gives_back_what_went_in(some):
    batch = record_batch(some)
    assert batch.schema.equals(arrow_schema(), check_metadata=True)
    assert batch.to_pylist() == [without_surrogates(plain(item)) for item in some]
    batch.validate(full=True)


def test_columns_can_be_chosen():
    batch = record_batch([row()], choose_columns(["latency_ns", "client_id"]))
    assert batch.to_pylist() == [{"latency_ns": 2_000_000, "client_id": "app"}]


def test_text_that_is_no_unicode_is_written_with_escapes():
    batch = record_batch([row(client_id="a\udc80", anomalies=["b\udc81"])])
    assert batch.column("client_id").to_pylist() == ["a\\udc80"]
    assert batch.column("anomalies").to_pylist() == [["b\\udc81"]]


def test_batches_make_one_table():
    table = table_of(Source([row()], [], [orphan(), row()]))
    assert table.column("status").to_pylist() == ["ok", "orphan_response", "ok"]


def test_no_batches_make_an_empty_table_with_all_columns():
    assert table_of(Source()).num_rows == 0
    assert frame_of(Source()).columns.to_list() == [column.name for column in COLUMNS]


def test_a_frame_keeps_times_exact_beside_nulls():
    frame = frame_of(Source([row(request_start_ns=START_NS + 1), orphan()]))
    assert frame["request_start_ns"].to_list() == [START_NS + 1, pd.NA]
    assert frame["request_start_ns"].dtype == pd.Int64Dtype()


def test_columns_that_are_never_null_have_plain_types():
    frame = frame_of(Source([row()]))
    assert frame["client_port"].dtype == "int64"
    assert frame["waited"].dtype == pd.BooleanDtype()


def test_a_frame_has_the_rows_of_the_source():
    traffic = plain_traffic(200)
    frame = frame_of(Source(traffic[:50], traffic[50:]))
    assert frame["latency_ns"].to_list() == [item.latency_ns for item in traffic]
    assert frame["client_id"].to_list() == [item.client_id for item in traffic]
    assert int(frame["record_count"].sum()) == sum(item.record_count or 0 for item in traffic)


def test_nested_columns_are_lists_in_a_frame():
    frame = frame_of(Source([failed("orders", 6, "NOT_LEADER_OR_FOLLOWER")]))
    assert frame["errors"][0][0]["name"] == "NOT_LEADER_OR_FOLLOWER"


def test_a_number_that_does_not_fit_its_column_is_not_cut():
    with pytest.raises(OverflowError):
        record_batch([row(latency_ns=2**63)])
