"""Rows of records are the same from compiled and from uncompiled modules."""

from __future__ import annotations

import pytest

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.records.rows import RecordReader, has_records
from tests.support.captures import path
from tests.support.uncompiled import uncompiled


@pytest.mark.parametrize("name", ["codecs", "transactions", "old-0-9-0-1"])
@pytest.mark.parametrize("values_as", [None, "base64"])
def test_rows_of_a_capture_are_the_same(name, values_as):
    with uncompiled() as modules:
        pass
    catalog = Catalog()
    compiled_reader, uncompiled_reader = (
        reader_type(catalog, Decoders(catalog), values_as=values_as)
        for reader_type in (RecordReader, modules["kanalyze.tables.records.rows"].RecordReader)
    )
    compared = 0
    for exchanges, block in Analysis([str(path(name))], keep=has_records).exchange_blocks():
        blocks = [
            list(reader.blocks(exchanges, block)) for reader in (compiled_reader, uncompiled_reader)
        ]
        assert [made.columns for made in blocks[0]] == [made.columns for made in blocks[1]]
        compared += sum(map(len, blocks[0]))
    assert compared > 10
