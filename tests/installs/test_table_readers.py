"""Spark reads the Delta and Iceberg tables of an archive, by the packages of their own projects.

These are jars for releases of Spark older than the one that tests have otherwise.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path

SPARK = "pyspark==4.1.*"
JARS = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)
READ = """
import json, sys
from pyspark.sql import SparkSession

jars, ivy, delta, iceberg = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars.packages", jars)
    .config("spark.jars.ivy", ivy)
    .config("spark.ui.enabled", "false")
    .config("spark.network.timeout", "600s")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
read = {"delta": spark.read.format("delta").load(delta)}
read["iceberg"] = spark.read.format("iceberg").load(iceberg)
columns = "api_name", "correlation_id", "request_start_ns", "min_bytes"
print(json.dumps({name: rows.select(*columns).collect() for name, rows in read.items()}))
"""


@pytest.mark.long
@pytest.mark.spark
def test_spark_reads_what_a_batch_wrote(tmp_path: Path) -> None:
    capture = str(path("basics"))
    for table_format in ("delta", "iceberg"):
        command = ["batch", capture, "--engine", "process", "--out", str(tmp_path / table_format)]
        assert main([*command, "--table-format", table_format, "--brief"]) == 0
    versions = (tmp_path / "iceberg/iceberg/kanalyze/requests/metadata").glob("*.metadata.json")
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", SPARK], check=True, stdout=sys.stderr)
    arguments = [",".join(JARS), str(tmp_path / "ivy"), str(tmp_path / "delta" / "requests")]
    done = subprocess.run(
        [python, "-c", READ, *arguments, str(max(versions))],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    rows = kanalyze.requests(capture)
    expected = sorted(
        [row.api_name, row.correlation_id, row.request_start_ns, row.min_bytes] for row in rows
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: sorted(lines) for name, lines in found.items()} == {
        "delta": expected,
        "iceberg": expected,
    }
