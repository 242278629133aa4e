"""Converting blocks to Arrow batches and back loses nothing."""

from __future__ import annotations

import subprocess
import sys
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.export.arrow import BatchMaker, block_of
from kanalyze.spec.rows.requests import COLUMNS
from tests.support.cases import examples
from tests.support.row_blocks import blocks_of
from tests.support.rows import orphan, plain_traffic, row, rows


@settings(max_examples=examples(50))
@given(st.lists(rows(), max_size=5))
def test_rows_are_the_same_after_a_batch(given_rows):
    """Only texts that are not Unicode differ: Arrow has their escapes."""
    batch = BatchMaker().of_rows(given_rows)
    assert BatchMaker().of_rows(block_of(batch, COLUMNS).rows()).equals(batch)


def test_parts_of_batches_are_blocks_of_these_rows():
    traffic = [*plain_traffic(40), orphan(), row(waited=None), row(waited=True)]
    batch = BatchMaker().of_rows(traffic)
    random = Random(1)
    for _ in range(20):
        first = random.randrange(len(traffic))
        count = random.randrange(len(traffic) - first + 1)
        part = batch.slice(first, count)
        assert block_of(part, COLUMNS).rows() == traffic[first : first + count]


def test_a_block_that_came_back_makes_the_same_batch():
    for block in blocks_of(plain_traffic(60), Random(2)):
        batch = BatchMaker().of_block(block)
        assert BatchMaker().of_block(block_of(batch, COLUMNS)).equals(batch)


@pytest.mark.parametrize("name", ["capture", "connection_number", "errors", "anomalies"])
def test_a_null_in_a_column_without_nulls_is_refused(name):
    batch = BatchMaker().of_rows([row()])
    at = batch.schema.get_field_index(name)
    broken = batch.set_column(at, name, pa.nulls(1, batch.schema.field(name).type))
    with pytest.raises(ValueError, match=f"{name} is null"):
        block_of(broken, COLUMNS)


@pytest.mark.parametrize("name", ["errors", "anomalies"])
def test_a_null_in_a_list_is_refused(name):
    batch = BatchMaker().of_rows([row()])
    at = batch.schema.get_field_index(name)
    kind = batch.schema.field(name).type
    broken = batch.set_column(at, name, pa.array([[None]], kind))
    with pytest.raises(ValueError, match=f"an item of {name} is null"):
        block_of(broken, COLUMNS)


def test_pandas_is_not_loaded():
    code = (
        "import sys\n"
        "from kanalyze.export.arrow import BatchMaker\n"
        "from kanalyze.export.arrow import block_of\n"
        "from kanalyze.spec.rows.requests import COLUMNS\n"
        "from tests.support.rows import orphan, plain_traffic\n"
        "block_of(BatchMaker().of_rows([*plain_traffic(9), orphan()]), COLUMNS).rows()\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
