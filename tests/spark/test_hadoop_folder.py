from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.shared_folder import FileEntry
from kanalyze.errors import UsageError
from kanalyze.spark.hadoop_folder import HadoopFolder

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ODD = "a b%20#?x"


@pytest.fixture(params=["path", "url"])
def folder(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> HadoopFolder:
    location = tmp_path / ODD
    return HadoopFolder(spark, str(location) if request.param == "path" else f"file://{location}/")


@pytest.mark.few(1)
def test_files_are_written_read_moved_and_removed(folder, tmp_path):
    assert folder.files("") == []
    assert folder.read("x/y") is None
    folder.write("x/y", bytes(range(256)) * 1000)
    folder.write("x/day=1/z", b"1")
    folder.write("x/day=1/z", b"22")
    assert folder.read("x/y") == bytes(range(256)) * 1000
    assert (tmp_path / ODD / "x" / "day=1" / "z").read_bytes() == b"22"
    assert folder.files("x") == [FileEntry("x/day=1/z", 2), FileEntry("x/y", 256_000)]
    folder.move("x/y", "new/place/y")
    folder.move("x/day=1/z", "new/place/y")
    assert folder.files("") == [FileEntry("new/place/y", 2)]
    folder.remove("new")
    folder.remove("new")
    assert folder.files("") == []


@pytest.mark.few(1)
def test_files_written_by_spark_are_listed(spark, folder):
    spark.range(3).coalesce(1).write.parquet(f"{folder.url}/table")
    names = [entry.name for entry in folder.files("table")]
    assert any(name.endswith(".parquet") for name in names)
    assert spark.read.parquet(f"{folder.url}/table").count() == 3


@pytest.mark.few(1)
def test_a_folder_is_made_private_with_what_spark_wrote_into_it(spark, folder, tmp_path):
    folder.make_private("run")
    run = tmp_path / ODD / "run"
    assert run.stat().st_mode & 0o777 == 0o700
    spark.range(3).coalesce(1).write.mode("overwrite").parquet(f"{folder.url}/run/states")
    folder.make_private("run")
    # Hadoop does not list its files of checksums. Nobody else can enter the folder they are in.
    paths = [run, *(path for path in run.rglob("*") if path.suffix != ".crc")]
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in paths}
    assert modes == {(True, 0o700), (False, 0o600)}
    assert spark.read.parquet(f"{folder.url}/run/states").count() == 3


def test_errors_are_reported_in_one_line(spark, tmp_path):
    (tmp_path / "file").write_text("x")
    folder = HadoopFolder(spark, str(tmp_path / "file"))
    with pytest.raises(UsageError) as caught:
        folder.write("x", b"")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/file: ")
    with pytest.raises(UsageError, match=r"^nosuch://host/x: "):
        HadoopFolder(spark, "nosuch://user:secret@host/x")


def test_moving_a_missing_file_is_an_error(folder):
    with pytest.raises(UsageError):
        folder.move("x", "y")
