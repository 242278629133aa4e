"""A task writes each row to exactly one file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kanalyze.batch.archive.row_sink import numbered
from kanalyze.batch.archive.table_files import (
    TableFiles,
    WrittenFile,
    hour_folder,
    merge_files,
    small_files,
    with_small_merged,
)
from kanalyze.errors import UsageError
from kanalyze.spec.rows.tables import SQL_TABLES
from kanalyze.tables.columns.block import RowBlock
from tests.support.captures import often
from tests.support.rows import row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HOUR_NS = 3_600 * 10**9
BEGAN_NS = 490_000 * HOUR_NS  # 2025-11-24T16:00


def block(*hours: int | None, first_id: int = 1) -> RowBlock:
    """Requests that began in the given hours after ``BEGAN_NS``; None makes an orphan response."""
    rows = [
        row(
            request_start_ns=None if hour is None else BEGAN_NS + hour * HOUR_NS + 7,
            response_start_ns=BEGAN_NS + (hour or 0) * HOUR_NS + HOUR_NS - 1,
            client_id=f"c{number}",
        )
        for number, hour in enumerate(hours)
    ]
    return numbered(RowBlock.of_rows(rows), first_id)


def ids_in(folder: Path, files: list[WrittenFile]) -> dict[str, list[int]]:
    """The request ids in the files, by folder."""
    found: dict[str, list[int]] = {}
    for file in files:
        table = pq.ParquetFile(folder / file.name).read()
        assert table.num_rows == file.rows
        assert (folder / file.name).stat().st_size == file.total_bytes
        name = file.name.rpartition("/")[0]
        found.setdefault(name, []).extend(table["request_id"].to_pylist())
    return found


def test_requests_are_in_the_folder_of_the_hour_they_began_in(tmp_path: Path) -> None:
    files = TableFiles(str(tmp_path))
    files.add("requests", block(0, 2, 0, None))
    files.add("requests", block(2, first_id=5))
    found = ids_in(tmp_path, files.finish())
    assert {name: sorted(ids) for name, ids in found.items()} == {
        "requests/day=2025-11-24/hour=16": [1, 3, 4],
        "requests/day=2025-11-24/hour=18": [2, 5],
    }


def test_a_file_has_the_columns_of_its_table(tmp_path: Path) -> None:
    files = TableFiles(str(tmp_path))
    files.add("requests", block(0))
    (file,) = files.finish()
    names = [column.name for column in SQL_TABLES["requests"].columns]
    assert names[0] == "request_id"
    assert pq.ParquetFile(tmp_path / file.name).schema_arrow.names == names


@pytest.mark.parametrize("hours", often([9, 30], [9]))
def test_no_row_is_lost_when_there_are_more_hours_than_open_files(
    hours: int, tmp_path: Path
) -> None:
    files = TableFiles(str(tmp_path))
    for turn in range(3):
        files.add("requests", block(*range(hours), first_id=turn * hours + 1))
    found = ids_in(tmp_path, files.finish())
    assert len(found) == hours
    assert Counter(number for ids in found.values() for number in ids) == Counter(
        range(1, 3 * hours + 1)
    )


def test_two_attempts_write_different_files(tmp_path: Path) -> None:
    written = []
    for _ in range(2):
        files = TableFiles(str(tmp_path))
        files.add("requests", block(0, 1))
        written += [file.name for file in files.finish()]
    assert len(set(written)) == 4


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    files = TableFiles(str(tmp_path / "none"))
    files.add("requests", RowBlock.of_rows([]))
    assert files.finish() == []
    assert not (tmp_path / "none").exists()


def test_aborted_files_are_not_listed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), TableFiles(str(tmp_path)) as files:  # noqa: PT012
        files.add("requests", block(0))
        raise ZeroDivisionError
    assert files.finish() == []


def test_hours_are_in_utc() -> None:
    assert hour_folder(0) == "day=1970-01-01/hour=00"
    assert hour_folder(-1) == "day=1969-12-31/hour=23"
    assert hour_folder(24 * 365 + 5) == "day=1971-01-01/hour=05"


def test_many_small_files_of_a_folder_are_merged(tmp_path: Path) -> None:
    written = []
    for task in range(9):
        files = TableFiles(str(tmp_path))
        files.add("requests", block(0, first_id=3 * task))
        if task:
            files.add("requests", block(1, None, first_id=3 * task + 1))
        written += files.finish()
    (group,) = small_files(written)  # the other hour has eight files
    assert {file.name.rpartition("/")[0] for file in group} == {"requests/day=2025-11-24/hour=16"}
    merged = merge_files(str(tmp_path), group)
    before, after = ids_in(tmp_path, group), ids_in(tmp_path, [merged])
    assert {name: sorted(ids) for name, ids in after.items()} == {
        name: sorted(ids) for name, ids in before.items()
    }
    merged_table, separate_tables = (
        pa.concat_tables([pq.ParquetFile(tmp_path / file.name).read() for file in some])
        for some in ([merged], group)
    )
    assert merged_table.schema == separate_tables.schema
    assert merged_table.sort_by("request_id").equals(separate_tables.sort_by("request_id"))


def test_merged_files_take_the_place_of_small_ones() -> None:
    small = [WrittenFile("groups", f"groups/{number}", 1, 100) for number in range(9)]
    large = WrittenFile("groups", "groups/large", 1, 64 << 20)
    merged = WrittenFile("groups", "groups/merged", 9, 900)
    groups_merged = []

    def merge(groups: Sequence[Sequence[WrittenFile]]) -> list[WrittenFile]:
        groups_merged.extend(groups)
        return [merged for _ in groups]

    assert with_small_merged([*small, large], merge) == [merged, large]
    assert groups_merged == [small]
    assert with_small_merged([large], merge) == [large]


def test_few_files_and_large_files_are_not_merged(tmp_path: Path) -> None:
    written = []
    for _ in range(12):
        files = TableFiles(str(tmp_path))
        files.add("requests", block(0))
        written += files.finish()
    assert small_files(written[:8]) == []
    large = [file._replace(total_bytes=16 << 20) for file in written[:4]]
    assert small_files([*large, *written[4:]]) == []
    sizes = [
        len(group) for group in small_files([f._replace(total_bytes=15 << 20) for f in written])
    ]
    assert sizes == [8, 4]  # a merged file has at most 128 MB


def test_files_that_lack_columns_are_merged(tmp_path: Path) -> None:
    """An earlier kanalyze wrote them."""
    files = TableFiles(str(tmp_path))
    files.add("requests", block(0, 0))
    (file,) = files.finish()
    whole = pq.ParquetFile(tmp_path / file.name).read()
    nullable = [field.name for field in whole.schema if field.nullable]
    pq.write_table(whole.drop_columns(nullable), tmp_path / file.name)
    merged = pq.ParquetFile(tmp_path / merge_files(str(tmp_path), [file, file]).name).read()
    assert merged.schema == whole.schema
    for name in whole.column_names:
        expected = [None, None] if name in nullable else whole[name].to_pylist()
        assert merged[name].to_pylist() == 2 * expected, name
    pq.write_table(whole.drop_columns("capture"), tmp_path / file.name)
    with pytest.raises(UsageError, match=f"^{tmp_path}: capture is null$"):
        merge_files(str(tmp_path), [file])
