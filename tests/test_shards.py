"""The rows of all shards of the connections together are those of one analysis."""

from __future__ import annotations

from collections import Counter

import pytest

from kanalyze.capture.inputs import find_inputs
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.net.segment_columns import ALL_CONNECTIONS, Shard
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.records.rows import RecordReader, has_records
from tests.support.captures import CHOSEN, NAMES, in_turn, path
from tests.support.exchange_batches import exchange_batches
from tests.support.record_rows import record_batches

SHARDS = [Shard(index, 3) for index in range(3)]


def rows_of(batches, *captures: str, shard: Shard = ALL_CONNECTIONS, **how) -> Counter[str]:
    analysis = Analysis(captures, shard=shard, **how)
    return Counter(repr(row) for batch in batches(analysis) for row in batch)


def batches_of_records(analysis: Analysis):
    catalog = Catalog()
    reader = RecordReader(catalog, Decoders(catalog), values_as="base64")
    for exchanges in exchange_batches(analysis):
        yield from record_batches(reader, exchanges)


KINDS = {
    "requests": Analysis.row_batches,
    "connections": Analysis.connection_batches,
    "anomalies": Analysis.anomaly_batches,
}


@pytest.mark.parametrize(("name", "kind"), in_turn(NAMES, KINDS, CHOSEN))
def test_the_rows_of_all_shards_are_those_of_one_analysis(name, kind):
    shards = [rows_of(KINDS[kind], str(path(name)), shard=shard) for shard in SHARDS]
    assert sum(shards, Counter()) == rows_of(KINDS[kind], str(path(name)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_several_captures_are_those_of_one_analysis(kind):
    captures = [str(path(name)) for name in ("basics", "errors", "mock", "foreign")]
    shards = [rows_of(KINDS[kind], *captures, shard=shard) for shard in SHARDS]
    assert all(shards)
    assert sum(shards, Counter()) == rows_of(KINDS[kind], *captures)


@pytest.mark.parametrize("name", ["basics", "codecs", "old-0-9-0-1"])
def test_the_records_in_all_shards_are_those_of_one_analysis(name):
    capture = str(path(name))
    shards = [
        rows_of(batches_of_records, capture, shard=shard, keep=has_records) for shard in SHARDS
    ]
    assert sum(shards, Counter()) == rows_of(batches_of_records, capture, keep=has_records)


def test_anomalies_of_no_connection_are_reported_by_the_first_shard_alone(tmp_path):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(path("basics").read_bytes()[:-1])
    rows = [rows_of(Analysis.anomaly_batches, str(cut), shard=shard) for shard in SHARDS]
    reported = ["capture_truncated" in " ".join(found) for found in rows]
    assert reported == [True, False, False]


def test_the_quality_of_the_shards_adds_up():
    alone = Analysis([str(path("errors"))])
    list(alone.batches())
    shards = [Analysis([str(path("errors"))], shard=shard) for shard in SHARDS]
    for analysis in shards:
        list(analysis.batches())
    first, *others = shards
    for other in others:
        first.quality.merge(other.quality)
    assert first.quality.to_dict() == alone.quality.to_dict()


def test_inputs_that_were_found_before_are_read_like_paths():
    captures = [str(path(name)) for name in ("mock", "basics")]
    found = find_inputs(captures)
    assert rows_of(Analysis.row_batches, *found) == rows_of(Analysis.row_batches, *captures)
