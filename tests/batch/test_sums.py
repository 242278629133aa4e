"""Sums of parts give the tables of a report on all rows.

A new table of a report that reads rows by itself fails here: it needs a derived table whose lines
can be added up (``_ADDED`` in ``sums.py``).
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kanalyze
from kanalyze.batch import archive_report
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.batch.sums import (
    add_connections,
    dump_sums,
    load_sums,
    sums_database,
    sums_in,
    sums_of,
)
from kanalyze.cli.main import main
from kanalyze.queries.files import built_in
from kanalyze.queries.report import OF_ROWS, report_of
from kanalyze.render.header import header_lines
from kanalyze.spec.report import TABLES
from kanalyze.tables.quality import CaptureQuality
from tests.batch.test_batch import Expected, make_settled, report
from tests.support.captures import path
from tests.support.cut_captures import cut

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.batch.sums import Sums

OF_SUMS = (*sorted(TABLES.keys() - OF_ROWS), "totals", "throughput", "latency", "limited")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of captures with faults, in many files."""
    folder = tmp_path_factory.mktemp("sums") / "out"
    names = ["groups", "codecs", "fault-lag", "fault-heartbeats", "old-1-1-1", "tls"]
    options = ["--engine", "process", "--jobs", "1", "--buckets", "3", "--out", str(folder)]
    assert main(["batch", *(str(path(name)) for name in names), *options]) == 0
    return folder


def parts_of(out: Path, noise: random.Random) -> list[Sums]:
    """Return the sums of files in groups, some added up before; none with connections of TLS."""
    groups: list[dict[str, list[str]]] = [{"requests": [], "connections": []} for _ in range(4)]
    for table in groups[0]:
        for name in files_of(out, table):
            if table == "requests" or name not in files_with_tls(out):
                noise.choice(groups)[table].append(name)
    parts = [load_sums(sums_of(str(out), files)) for files in groups]
    count = noise.randrange(1, len(parts))
    with sums_database(parts[:count]) as database:
        return [sums_in(database), *parts[count:]]


def files_of(out: Path, table: str) -> list[str]:
    return sorted(str(file.relative_to(out)) for file in (out / table).rglob("*.parquet"))


def files_with_tls(out: Path) -> list[str]:
    names = files_of(out, "connections")
    return [name for name in names if "tls" in pq.read_table(out / name)["protocol"].to_pylist()]


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_sums_give_the_tables_of_all_rows(out, seed):
    """Connections may be added to the sums later, as those are that a run leaves open."""
    expected = report(out)
    with sums_database(parts_of(out, random.Random(seed))) as database:
        add_connections(database, SharedFolder(str(out)), files_with_tls(out))
        found = report_of_sums(database)
    for name in OF_SUMS:
        assert found[name] == expected[name], name


def report_of_sums(database):
    every = frozenset(built_in("report").values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kanalyze.queries.report.promising", lambda *_: every)
        return json.loads(json.dumps(report_of(database, CaptureQuality())))


def test_spans_of_time_can_be_added_up(tmp_path):
    """Whatever the width was before, spans that were counted lie in one of the spans of later."""
    grains: list[tuple[int, int]] = []
    with sums_database([]) as database:
        for shift in range(18, 62):
            extent = pa.table({"first_ns": [0], "last_ns": [2**shift]})
            database.derived.give("time_extent", extent, "FROM incoming")
            line = database.ask("FROM time_buckets").to_pylist()[0]
            grains.append((line["grain_ns"], line["bucket_ns"]))
    assert len(set(grains)) > 30
    for index, (grain_ns, _) in enumerate(grains):
        for later_grain_ns, later_width_ns in grains[index:]:
            assert later_width_ns % later_grain_ns == later_grain_ns % grain_ns == 0
            assert 240 * later_width_ns < 1000 * later_grain_ns


def test_damaged_sums_and_those_of_other_queries_are_none(monkeypatch):
    with sums_database([]) as database:
        data = dump_sums(sums_in(database))
    assert load_sums(data) is not None
    for damaged in (b"", b"PK", data[: len(data) // 2]):
        assert load_sums(damaged) is None
    monkeypatch.setattr("kanalyze.batch.sums._digest", lambda: b"other")
    assert load_sums(data) is None


def test_an_archive_keeps_findings_of_rows_that_it_does_not_read_again(tmp_path, monkeypatch):
    """Findings are those of the latest rows, and of earlier runs; tables are of all rows."""
    monkeypatch.setattr(archive_report, "MAX_ROWS", 1)
    folder, out = tmp_path / "captures", tmp_path / "out"
    folder.mkdir()
    arguments = [str(folder), "--out", str(out), "--checkpoint", str(tmp_path / "state")]
    arguments += ["--engine", "process", "--jobs", "1"]
    heartbeats = cut(path("fault-heartbeats"), folder, 1)
    make_settled(heartbeats)
    assert main(["batch", *arguments]) == 0
    (found,) = [one for one in report(out)["findings"] if one["name"] == "late_heartbeats"]
    assert "findings_span" not in report(out)
    others = cut(path("groups"), folder, 2)
    make_settled(others)
    assert main(["batch", *arguments, "--finish"]) == 0
    (kept,) = [one for one in report(out)["findings"] if one["name"] == "late_heartbeats"]
    assert {**kept, "cause": None} == {**found, "cause": None}
    expected = Expected(tmp_path, [*heartbeats, *others]).report
    for name in OF_SUMS:
        assert report(out)[name] == expected[name], name
    rows = kanalyze.requests(*others)
    both = [time for row in rows for time in (row.request_start_ns, row.response_start_ns)]
    times = [time for time in both if time is not None]
    span = {"first_time_ns": min(times), "last_time_ns": max(times)}
    assert report(out)["findings_span"] == span
    (line,) = [one.plain for one in header_lines(report(out)) if "searched" in one.plain]
    assert "the latest runs alone, 2026-11-20 22:46:42 to 2026-11-20 22:46:59 UTC;" in line
