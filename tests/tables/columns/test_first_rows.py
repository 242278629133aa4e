"""The first rows in some order are those of a sort of all rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.errors import UsageError
from kanalyze.tables.columns import first_rows as first_rows_module
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.columns.first_rows import first_rows, limited, sort_column
from tests.support.rows import row

NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.none() | st.sampled_from(["", "a", "B", "b", "é"])


def blocks_of(parts, column):
    return [RowBlock.of_rows([row(**{column: value}) for value in part]) for part in parts if part]


def values_of(blocks, column):
    return [getattr(each, column) for block in blocks for each in block.rows()]


@pytest.mark.parametrize(("column", "values"), [("latency_ns", NUMBERS), ("client_id", TEXTS)])
@given(data=st.data(), limit=st.integers(1, 6), pending=st.integers(1, 5))
def test_they_are_the_first_of_all_sorted(column, values, data, limit, pending):
    parts = data.draw(st.lists(st.lists(values, max_size=5), max_size=5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_rows_module, "_MOST_PENDING", pending)
        found = values_of(first_rows(blocks_of(parts, column), sort_column(column), limit), column)
    known = sorted(value for part in parts for value in part if value is not None)
    known = known[::-1] if column == "latency_ns" else known
    nulls = [None for part in parts for value in part if value is None]
    assert found == [*known, *nulls][:limit]


def test_equal_rows_keep_their_order():
    blocks = [RowBlock.of_rows([row(latency_ns=1, client_id=str(n))]) for n in range(5)]
    found = values_of(first_rows(blocks, sort_column("latency_ns"), 3), "client_id")
    assert found == ["0", "1", "2"]


@given(st.lists(st.integers(1, 4), max_size=5), st.integers(1, 9))
def test_without_an_order_no_more_is_read_than_needed(sizes, limit):
    read = []

    def blocks():
        for size in sizes:
            read.append(size)
            yield RowBlock.of_rows([row(correlation_id=len(read))] * size)

    found = values_of(limited(blocks(), limit), "correlation_id")
    numbers = [number for number, size in enumerate(sizes, 1) for _ in range(size)]
    assert found == numbers[:limit]
    assert len(read) == (found[-1] if found else 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("latency", "unknown column: 'latency'; did you mean latency_ns"),
        ("partitions", "cannot be sorted by partitions"),
        ("anomalies", "cannot be sorted by anomalies"),
    ],
)
def test_other_columns_are_refused(name, message):
    with pytest.raises(UsageError, match=message):
        sort_column(name)
