from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.export.parquet import ParquetWriter
from kanalyze.live.recorder import files as rolling_module
from kanalyze.live.recorder.files import RollingParquet
from kanalyze.tables.columns.block import RowBlock
from tests.support import rows as sample_rows
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from pathlib import Path

SECOND_NS = 1_000_000_000
NOON_NS = 1_795_262_400 * SECOND_NS  # 2026-11-21T12:00:00Z
YEAR_NS = 365 * 86_400 * SECOND_NS
TRAFFIC = sample_rows.plain_traffic(300)
BATCH = RowBlock.of_rows(TRAFFIC)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_files_contain_the_rows_that_were_added(tmp_path: Path) -> None:
    with RollingParquet(tmp_path) as rolling:
        rolling.add(RowBlock.of_rows(TRAFFIC[:100]), NOON_NS, 0)
        rolling.add(RowBlock.of_rows(TRAFFIC[100:]), NOON_NS + SECOND_NS, 0)
    (path,) = tmp_path.iterdir()
    assert path.name == "kanalyze-20261121T120000Z-000001.parquet"
    with ParquetWriter(str(tmp_path / "at once")) as writer:
        writer.write(TRAFFIC)
    assert path.read_bytes() == (tmp_path / "at once").read_bytes()
    assert pq.read_table(path)["client_id"].to_pylist() == [row.client_id for row in TRAFFIC]


def test_an_open_file_has_a_hidden_name(tmp_path: Path) -> None:
    with RollingParquet(tmp_path) as rolling:
        rolling.tick(NOON_NS, 0)
        rolling.add(RowBlock.of_rows([]), NOON_NS, 0)
        rolling.roll()
        assert list(tmp_path.iterdir()) == []  # without rows there is no file
        rolling.add(BATCH, NOON_NS, 0)
        assert names(tmp_path) == []
        assert len(hidden(tmp_path)) == 1
        rolling.roll()
        assert len(names(tmp_path)) == 1
        assert hidden(tmp_path) == []


def test_a_file_ends_after_its_maximum_time(tmp_path: Path) -> None:
    with RollingParquet(tmp_path, every_s=60) as rolling:
        rolling.add(BATCH, NOON_NS, 0)
        rolling.tick(NOON_NS + 60 * SECOND_NS - 1, 0)
        assert names(tmp_path) == []
        rolling.tick(NOON_NS + 60 * SECOND_NS, 0)
        assert names(tmp_path) == ["kanalyze-20261121T120000Z-000001.parquet"]
        rolling.add(BATCH, NOON_NS + 90 * SECOND_NS, 0)
        rolling.add(BATCH, NOON_NS + 150 * SECOND_NS, 0)
        assert names(tmp_path)[1:] == ["kanalyze-20261121T120130Z-000002.parquet"]
    assert names(tmp_path)[2:] == ["kanalyze-20261121T120230Z-000003.parquet"]


def test_a_file_ends_after_its_maximum_time_by_the_monotonic_clock(tmp_path: Path) -> None:
    """A clock that was set back by a year does not keep a file open for a year."""
    with RollingParquet(tmp_path, every_s=60) as rolling:
        rolling.add(BATCH, NOON_NS, 5 * SECOND_NS)
        rolling.tick(NOON_NS - YEAR_NS, 65 * SECOND_NS - 1)
        assert names(tmp_path) == []
        rolling.tick(NOON_NS - YEAR_NS, 65 * SECOND_NS)
        assert len(names(tmp_path)) == 1


def test_packets_of_alternating_clocks_do_not_start_new_files(tmp_path: Path) -> None:
    """Clocks of two machines may differ by an hour. Small files must not replace older ones."""
    with RollingParquet(tmp_path, every_s=60) as rolling:
        for second in range(240):
            now_ns = NOON_NS + second % 2 * 3600 * SECOND_NS + second * SECOND_NS
            rolling.add(RowBlock.of_rows(TRAFFIC[:1]), now_ns, second * SECOND_NS)
    assert 4 <= len(names(tmp_path)) <= 9
    assert sum(pq.read_metadata(tmp_path / name).num_rows for name in names(tmp_path)) == 240


def test_the_file_that_was_written_last_is_kept_whatever_its_time(tmp_path: Path) -> None:
    with RollingParquet(tmp_path, max_files=1) as rolling:
        for now_ns in (NOON_NS, NOON_NS - 3600 * SECOND_NS):
            rolling.add(BATCH, now_ns, 0)
            rolling.roll()
    assert names(tmp_path) == ["kanalyze-20261121T110000Z-000002.parquet"]


def test_a_file_ends_at_its_maximum_size(tmp_path: Path) -> None:
    # A row group is written every 20,000 rows; before that, the size of a file is 0.
    block = RowBlock.of_rows(TRAFFIC * 70)
    with RollingParquet(tmp_path, max_bytes=10_000) as rolling:
        for _ in range(3):
            rolling.add(block, NOON_NS, 0)
    row_counts = [pq.read_metadata(tmp_path / name).num_rows for name in names(tmp_path)]
    assert row_counts == [len(block)] * 3


def test_the_oldest_files_beyond_the_maximum_are_removed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "kanalyze-20200101T000000Z-1.parquet").write_text("not of this series")
    for first in (0, 2):  # the next run continues the numbers
        with RollingParquet(tmp_path, max_files=2) as rolling:
            for minute in (first, first + 1):
                rolling.add(BATCH, NOON_NS + minute * 60 * SECOND_NS, 0)
                rolling.roll()
    assert names(tmp_path) == [
        "kanalyze-20200101T000000Z-1.parquet",
        "kanalyze-20261121T120200Z-000003.parquet",
        "kanalyze-20261121T120300Z-000004.parquet",
        "notes.txt",
    ]


def test_files_count_by_number_not_by_name(tmp_path: Path) -> None:
    """Folders and links are not files of rows."""
    begin = "kanalyze-20261121T120000Z-"
    for number in (1_000_000, 999_999, 999_998):
        (tmp_path / f"{begin}{number}.parquet").write_bytes(b"")
    (tmp_path / f"{begin}2000000.parquet").mkdir()
    (tmp_path / f"{begin}3000000.parquet").symlink_to(tmp_path)
    with RollingParquet(tmp_path, max_files=2) as rolling:
        rolling.add(BATCH, NOON_NS, 0)
    numbers = sorted(int(name[len(begin) : -len(".parquet")]) for name in names(tmp_path))
    assert numbers == [1_000_000, 1_000_001, 2_000_000, 3_000_000]


KILLED = """
    import os, sys
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.live.recorder.files import RollingParquet
    from tests.support import rows as sample_rows

    rolling = RollingParquet(sys.argv[1])
    batch = RowBlock.of_rows(sample_rows.plain_traffic(100))
    rolling.add(batch, 10**18, 0)
    rolling.roll()
    rolling.add(batch, 10**18, 0)
    os.kill(os.getpid(), 9)
"""


def test_the_open_file_of_a_killed_run_is_removed_by_the_next_run(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(folder)]
    assert subprocess.run(command, check=False, timeout=LONG_S).returncode == -9
    assert len(names(folder)) == len(hidden(folder)) == 1
    (folder / ".kanalyze.open").write_text("another program's")
    (folder / ".kanalyze-20261121T120000Z-000001.parquet.open").write_bytes(b"")
    with RollingParquet(folder):
        assert len(names(folder)) == 1
        assert hidden(folder) == [".kanalyze.open"]
    assert pq.read_metadata(folder / names(folder)[0]).num_rows == 100


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with RollingParquet(tmp_path) as rolling:
        rolling.add(BATCH, NOON_NS, 0)
        with pytest.raises(KanalyzeError, match="another run writes to it"):
            RollingParquet(tmp_path)
    RollingParquet(tmp_path).close()
    assert len(names(tmp_path)) == 1


def test_an_invalid_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KanalyzeError, match="cannot write to") as caught:
        RollingParquet(tmp_path / "file" / "below")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("limit", ["every_s", "max_bytes", "max_files"])
def test_limits_of_0_are_refused(tmp_path: Path, limit: str) -> None:
    with pytest.raises(UsageError):
        RollingParquet(tmp_path / "rows", **{limit: 0})
    assert not (tmp_path / "rows").exists()


def test_the_next_row_after_a_failure_starts_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    rolling = RollingParquet(tmp_path)
    rolling.add(BATCH, NOON_NS, 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            rolling.roll()
    assert list(tmp_path.iterdir()) == []
    rolling.add(BATCH, NOON_NS, 0)
    rolling.close()
    assert names(tmp_path) == ["kanalyze-20261121T120000Z-000002.parquet"]
    assert (rolling.files, rolling.lost_rows) == (1, len(BATCH))


def test_rows_are_counted_as_lost_if_no_file_can_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with RollingParquet(tmp_path) as rolling:
        with monkeypatch.context() as patched:
            patched.setattr(rolling_module, "ParquetWriter", full)
            for _ in range(2):
                with pytest.raises(OSError, match="No space"):
                    rolling.add(BATCH, NOON_NS, 0)
        rolling.add(BATCH, NOON_NS, 0)
    assert (rolling.files, rolling.lost_rows) == (1, 2 * len(BATCH))


def test_a_link_with_the_name_of_the_next_file_is_not_followed(tmp_path: Path) -> None:
    folder, target = tmp_path / "rows", tmp_path / "target"
    folder.mkdir()
    target.write_text("unchanged")
    name = "kanalyze-20261121T120000Z-000001.parquet"
    (folder / f".{name}.open").symlink_to(target)
    (folder / name).symlink_to(target)
    with RollingParquet(folder) as rolling:
        rolling.add(BATCH, NOON_NS, 0)
    assert target.read_text() == "unchanged"
    assert not (folder / name).is_symlink()
    assert pq.read_metadata(folder / name).num_rows == len(BATCH)
