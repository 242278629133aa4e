"""TLS on Spark gives the same rows as one process; no file or log contains a secret."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import kanalyze
import kanalyze.spark
from kanalyze.batch.archive.blocks import unpack_state
from kanalyze.cli.main import main
from kanalyze.runtime.state import _opened
from tests.support import tls_captures
from tests.support.cut_captures import cut
from tests.support.spark import own_session, settings
from tests.support.spark_tables import as_on_spark
from tests.support.waiting import LONG_S
from tests.tls.test_saved_state import secrets_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

NAME = "tls13-sasl"
KEYS = tls_captures.keylog(NAME)


def assert_same_rows(found: DataFrame, expected: Any) -> None:
    table = as_on_spark(expected.to_arrow())
    rows = found.select(*table.column_names).toArrow().to_pylist()
    assert Counter(map(repr, rows)) == Counter(map(repr, table.to_pylist()))
    assert rows


def secret_pattern(name: str) -> re.Pattern[bytes]:
    """A pattern that matches the secrets of a capture, as raw bytes and in hex."""
    forms = [form for s in secrets_of(name) for form in (s, s.hex().encode())]
    return re.compile(b"|".join(map(re.escape, forms)), re.IGNORECASE)


@pytest.mark.long
def test_functions_and_the_data_source_take_key_logs(spark: SparkSession, tmp_path: Path) -> None:
    files = [str(file) for file in cut(tls_captures.path(NAME), tmp_path, 3)]
    with kanalyze.spark.open_archive(spark, *files, buckets=3, payload=True, keylog=KEYS) as read:
        assert_same_rows(read.requests(), kanalyze.requests(*files, keylog=KEYS))
        assert_same_rows(read.connections(), kanalyze.connections(*files, keylog=KEYS))
        assert_same_rows(read.records(), kanalyze.records(*files, keylog=KEYS))
        rows = read.requests()
        plan = rows._jdf.queryExecution().toString().encode()
    assert secret_pattern(NAME).search(plan) is None
    session = own_session(spark)
    kanalyze.spark.register(session)
    source = session.read.format("kanalyze").option("keylog", str(KEYS))
    assert_same_rows(
        source.option("numPartitions", 4).load(files), kanalyze.requests(*files, keylog=KEYS)
    )


def test_secrets_inside_captures_are_used(spark: SparkSession) -> None:
    file = str(tls_captures.path(tls_captures.WITH_SECRETS[0]))
    assert_same_rows(kanalyze.spark.requests(spark, file, buckets=1), kanalyze.requests(file))


def in_this_session(
    spark: SparkSession, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> bytes:
    """Run the command in the session of the tests; return its output and Spark's plans."""
    assert main(["batch", "--buckets", "3", *arguments]) == 0
    out, err = capfd.readouterr()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [
        executions.apply(index).physicalPlanDescription() for index in range(executions.length())
    ]
    return "".join([out, err, "SparkListenerSQLExecutionStart", *plans]).encode()


def in_a_session_of_its_own(tmp_path: Path, cores: int, arguments: tuple[str, ...]) -> bytes:
    """Run the command in its own process, with an event log; return its output."""
    log = tmp_path / "log"
    log.mkdir(exist_ok=True)
    conf = {
        **settings(tmp_path),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from kanalyze.cli.main import run; run()"),
            *("batch", "--buckets", "3", "--master", f"local[{cores}]", *arguments),
            *(text for name, value in conf.items() for text in ("--conf", f"{name}={value}")),
        ],
        capture_output=True,
        check=False,
        timeout=LONG_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def plain_bytes(file: Path) -> bytes:
    """The decompressed contents of a file; saved states are unpacked."""
    if file.suffix == ".gz":
        return gzip.decompress(file.read_bytes())
    if file.suffix != ".parquet":
        return file.read_bytes()
    table = pq.ParquetFile(file).read()
    text = repr(table.to_pylist()).encode()
    if table.column_names == ["bucket", "data"]:
        states = [unpack_state(data)[1] for data in table.column("data").to_pylist()]
        text += b"".join(map(_opened, states))
    return text


def test_files_written_by_a_batch_contain_no_secret(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert_no_secret(tmp_path, partial(in_this_session, spark, capfd), ends=False)


@pytest.mark.long
@pytest.mark.parametrize("cores", [1, 4])
def test_the_event_log_contains_no_secret(cores: int, tmp_path: Path) -> None:
    assert_no_secret(tmp_path, partial(in_a_session_of_its_own, tmp_path, cores))


def assert_no_secret(
    tmp_path: Path, batch: Callable[[tuple[str, ...]], bytes], *, ends: bool = True
) -> None:
    """Run a batch over a growing archive; search all files for secrets, and compare the rows.

    Without ``ends`` there is only one run, which leaves connections open.
    """
    inbox, out, keys = tmp_path / "in", tmp_path / "out", tmp_path / "keys"
    for folder in (inbox, keys):
        folder.mkdir()
    files = cut(tls_captures.path(NAME), inbox, 3)
    later = [file.rename(tmp_path / file.name) for file in files[2:]]
    for name in (NAME, "tls12-aes128gcm"):
        (keys / f"{name}.keys").write_bytes(tls_captures.keylog(name).read_bytes())
    given = (str(inbox), "--out", str(out), "--keylog", str(keys))
    state = ("--checkpoint", str(tmp_path / "state"))
    output = batch((*given, *state, "--settle", "0"))
    written = [file for file in tmp_path.rglob("*") if file.is_file() and keys not in file.parents]
    first = {file: plain_bytes(file) for file in written}
    for file in later:
        file.rename(inbox / file.name)
    if ends:
        output += batch((*given, *state, "--finish"))
    expected = as_on_spark(kanalyze.requests(str(inbox), keylog=KEYS).to_arrow())
    rows = [
        row
        for file in (out / "requests").rglob("*.parquet")
        for row in pq.ParquetFile(file).read(columns=expected.column_names).to_pylist()
    ]
    found, whole = Counter(map(repr, rows)), Counter(map(repr, expected.to_pylist()))
    assert found == whole if ends else found and not found - whole

    written = [file for file in tmp_path.rglob("*") if file.is_file() and keys not in file.parents]
    everything = [output, *first.values(), *map(plain_bytes, written)]
    secret, randoms = secret_pattern(NAME), client_randoms(NAME)
    assert not any(secret.search(data) for data in everything)
    # The search can find secrets: client randoms are in the states, and plans are searched too.
    assert any(randoms.search(data) for data in first.values())
    assert any(b"SparkListenerSQLExecutionStart" in data for data in everything)


def client_randoms(name: str) -> re.Pattern[bytes]:
    lines = tls_captures.keylog(name).read_text().splitlines()
    randoms = [bytes.fromhex(line.split()[1]) for line in lines if not line.startswith("RSA")]
    return re.compile(b"|".join(map(re.escape, randoms)))
