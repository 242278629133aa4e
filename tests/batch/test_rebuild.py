"""States of connections are found where the last run left them."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kanalyze.batch.rebuild import saved_states
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("rows_a_group", [1, 3, 100])
def test_the_state_of_a_bucket_is_read_wherever_it_is(rows_a_group: int, tmp_path: Path) -> None:
    """Runs on Spark wrote many in a row group, and other columns in front, or none at all."""
    states = {bucket: bytes([bucket]) * 1000 * (bucket % 3) for bucket in range(11)}
    schema = pa.schema([("data", pa.binary()), ("bucket", pa.int32())])
    for name, buckets in (("a", range(7)), ("b", range(7, 11)), ("empty", range(0))):
        rows = [{"data": states[bucket], "bucket": bucket} for bucket in buckets]
        table = pa.Table.from_pylist(rows, schema)
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=rows_a_group)
    found = saved_states(str(tmp_path), ["a.parquet", "b.parquet", "empty.parquet"])
    found = pickle.loads(pickle.dumps(found))
    assert {bucket: state.read() for bucket, state in found.items()} == states


def test_a_damaged_file_of_states_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(UsageError, match="Parquet"):
        saved_states(str(tmp_path), ["a.parquet"])
