"""Rows are unchanged after they went through Spark."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import kanalyze
from kanalyze.export.arrow import BatchMaker
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spark import schema as schema_module
from kanalyze.spark.schema import arrow_schema, as_requested, as_spark, spark_schema
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS
from kanalyze.spec.rows.records import columns_of_records
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.records.rows import RecordReader, has_records
from tests.support.captures import path
from tests.support.exchange_batches import exchange_batches
from tests.support.record_rows import record_batches
from tests.support.spark_tables import as_on_spark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from kanalyze.spec.columns import Column

CAPTURES = (str(path("errors")), str(path("transactions")))
TABLES = {
    "requests": COLUMNS,
    "connections": CONNECTION_COLUMNS,
    "anomalies": ANOMALY_COLUMNS,
    "records": columns_of_records(values=True, is_table=True),
}


@functools.cache
def own_table(name: str) -> pa.Table:
    """The table of the captures, made without Spark."""
    if name == "records":
        return record_table()
    return as_on_spark(getattr(kanalyze, name)(*CAPTURES).to_arrow())


def record_table() -> pa.Table:
    catalog = Catalog()
    reader = RecordReader(catalog, Decoders(catalog), values_as="base64")
    batches = [
        BatchMaker(TABLES["records"]).of_rows(rows)
        for exchanges in exchange_batches(Analysis(CAPTURES, keep=has_records))
        for rows in record_batches(reader, exchanges)
    ]
    return pa.Table.from_batches(batches)


def from_task(
    spark: SparkSession, batches: Iterable[pa.RecordBatch], columns: Sequence[Column]
) -> Any:
    """Send batches to Spark from a Python worker, and return what Spark returns."""
    given = list(batches)

    def give(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iter(given)

    frame = spark.range(1, numPartitions=1).mapInArrow(give, spark_schema(columns))
    return frame.toArrow()


@pytest.mark.parametrize("name", TABLES)
def test_rows_yielded_by_a_task_come_back_unchanged(spark: SparkSession, name: str) -> None:
    table, columns = own_table(name), TABLES[name]
    assert table.num_rows > 0
    back = from_task(spark, as_spark(table, columns), columns)
    assert back.schema.equals(arrow_schema(columns), check_metadata=True)
    assert back.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_a_frame_come_back_unchanged(spark: SparkSession, name: str) -> None:
    table, columns = own_table(name), TABLES[name]
    given = pa.Table.from_batches(as_spark(table, columns), arrow_schema(columns))
    back = spark.createDataFrame(given, spark_schema(columns)).toArrow()
    assert back.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("name", TABLES)
def test_batches_have_the_schema_that_a_data_source_needs(name: str) -> None:
    batches = list(as_spark(own_table(name), TABLES[name]))
    expected_schema = arrow_schema(TABLES[name])
    assert all(batch.schema.equals(expected_schema, check_metadata=True) for batch in batches)
    assert sum(batch.num_rows for batch in batches) == own_table(name).num_rows


def test_columns_are_selected_by_name_in_the_given_order(spark: SparkSession) -> None:
    table = own_table("requests")
    chosen = (COLUMNS[20], COLUMNS[1], COLUMNS[33])
    back = from_task(spark, as_spark(table, chosen), chosen)
    assert back.to_pylist() == table.select([column.name for column in chosen]).to_pylist()


def test_dictionary_encoded_texts_become_plain() -> None:
    rows = list(kanalyze.requests(*CAPTURES))
    coded = BatchMaker(COLUMNS, coded=True).of_rows(rows)
    assert pa.types.is_dictionary(coded.schema.field("client_id").type)
    assert pa.Table.from_batches(as_spark(coded, COLUMNS)).equals(
        pa.Table.from_batches(as_spark(own_table("requests"), COLUMNS))
    )


def test_a_slice_of_a_batch_gives_only_its_rows() -> None:
    batch = own_table("requests").to_batches()[0]
    given = list(as_spark(batch.slice(2, 5), COLUMNS))
    assert [row for part in given for row in part.to_pylist()] == batch.to_pylist()[2:7]


def test_an_empty_table_gives_no_rows(spark: SparkSession) -> None:
    empty = own_table("requests").slice(0, 0)
    assert sum(batch.num_rows for batch in as_spark(empty, COLUMNS)) == 0
    assert from_task(spark, as_spark(empty, COLUMNS), COLUMNS).num_rows == 0


def test_a_missing_column_is_an_error() -> None:
    with pytest.raises(KeyError):
        list(as_spark(own_table("requests").drop_columns(["api_key"]), COLUMNS))


def test_a_null_in_a_column_that_is_not_nullable_is_an_error() -> None:
    table = own_table("requests")
    place = table.schema.get_field_index("status")
    nulls = table.set_column(place, "status", pa.nulls(table.num_rows, pa.string()))
    with pytest.raises(ValueError, match="status"):
        list(as_spark(nulls, COLUMNS))


@pytest.mark.parametrize("name", TABLES)
def test_the_schema_has_the_names_and_nullability_of_the_columns(name: str) -> None:
    schema = spark_schema(TABLES[name])
    assert schema.names == [column.name for column in TABLES[name]]
    assert [field.nullable for field in schema] == [column.nullable for column in TABLES[name]]


def test_describe_shows_what_a_column_means(spark: SparkSession) -> None:
    frame = empty_frame(spark)
    frame.createOrReplaceTempView("described")
    comments = {row.col_name: row.comment for row in spark.sql("DESCRIBE described").collect()}
    spark.catalog.dropTempView("described")
    assert comments["latency_ns"] == "response_start_ns - request_end_ns (ns)"
    assert comments["client_id"] == "the client id in the request"


def empty_frame(spark: SparkSession) -> Any:
    return spark.createDataFrame([], spark_schema(COLUMNS))


def test_a_large_batch_is_split(monkeypatch):
    monkeypatch.setattr(schema_module, "_ROWS_AT_ONCE", 7)
    whole = BatchMaker().of_rows(list(kanalyze.requests(CAPTURES[0])))
    parts = list(as_requested(whole, COLUMNS, spark_schema(COLUMNS)))
    assert {len(part) for part in parts[:-1]} == {7}
    assert pa.Table.from_batches(parts).to_pylist() == whole.to_pylist()


def test_a_requested_schema_may_make_more_columns_nullable(spark: SparkSession):
    columns = [column for column in COLUMNS if column.name in ("status", "errors")]
    items = "array<struct<topic:string,partition:int,code:smallint,name:string>>"
    requested = StructType.fromDDL(f"status string, errors {items}")
    whole = BatchMaker().of_rows(list(kanalyze.requests(CAPTURES[0])))
    (part,) = as_requested(whole, columns, requested)
    assert part.schema.field("status").nullable
    assert part.schema.field("errors").type.value_field.nullable
    assert part.to_pylist() == whole.select(["status", "errors"]).to_pylist()
