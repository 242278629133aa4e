"""The tables of one run equal those of separate runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
import kanalyze.api.tables as module
from kanalyze.api.inputs import make_filter
from kanalyze.api.saved import SavedAnalysis
from kanalyze.api.tables import fill, opened_tables
from kanalyze.common import forked
from kanalyze.errors import UsageError
from kanalyze.queries.database import Database
from kanalyze.queries.report import report_of
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import NAMES, often, path

if TYPE_CHECKING:
    from pathlib import Path

TABLES = ("requests", "connections", "anomalies")


def tables(*captures: str | Path, **settings: Any) -> dict[str, list[tuple[Any, ...]]]:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis(captures, **settings))
        found = {}
        for table in TABLES:
            lines = database.ask(f"FROM stored.{table}").to_pylist()
            found[table] = [tuple(plain(x) for x in line.values()) for line in lines]
    found["requests"] = [line[1:] for line in found["requests"]]
    return found


def plain(value: Any) -> Any:
    return (
        [tuple(x.values()) if isinstance(x, dict) else x for x in value]
        if isinstance(value, list)
        else value
    )


def expected(*captures: Path) -> dict[str, list[tuple[Any, ...]]]:
    return {table: list(map(tuple, getattr(kanalyze, table)(*captures))) for table in TABLES}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(NAMES, ("errors", "groups", "old-0-8-2-2", "tls")))
def test_tables_of_one_run_match_separate_runs(name: str) -> None:
    assert tables(path(name)) == expected(path(name))


@pytest.mark.parametrize("limits", [(1, 16), (7, 2), (4096, 3)])
def test_rows_are_the_same_however_many_wait(
    limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_at_once, blocks_at_once = limits
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(module, "_BLOCKS_AT_ONCE", blocks_at_once)
    # Blocks with lists of their own words, as those of several captures have.
    captures = [path("groups"), path("errors"), path("basics")]
    assert tables(*captures) == expected(*captures)


def test_workers_fill_the_same_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "_MIN_BYTES", 0)
    alone, divided = tables(path("basics")), tables(path("basics"), jobs=3)
    assert divided["requests"] == alone["requests"]
    for table in ("connections", "anomalies"):
        assert sorted(map(repr, divided[table])) == sorted(map(repr, alone[table]))
        assert divided[table]


def test_a_filter_applies_to_all_tables() -> None:
    found = tables(path("basics"), row_filter=make_filter(client_ip=("10.0.0.0/8",)))
    assert found == {"requests": [], "connections": [], "anomalies": []}


def test_a_file_that_is_left_out_is_an_anomaly(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(path("basics").read_bytes())
    (tmp_path / "b.pcap.gz").write_bytes(b"\x1f\x8b\x08\x00garbage!")
    found = tables(str(tmp_path))["anomalies"]
    assert [line[0] for line in found].count("capture_unreadable") == 1
    assert sorted(map(repr, found)) == sorted(map(repr, expected(tmp_path)["anomalies"]))


@pytest.mark.few(1)
@pytest.mark.parametrize("options", [{}, {"api": ("Fetch",)}])
def test_tables_of_a_capture_and_of_a_saved_file_are_the_same(
    options: dict[str, Any], tmp_path: Path
) -> None:
    target = tmp_path / "a.duckdb"
    kanalyze.save(path("groups"), output=target)
    row_filter = make_filter(**options)
    reports = []
    for analysis in (
        Analysis([str(path("groups"))], row_filter=row_filter),
        SavedAnalysis([str(target)], row_filter=row_filter),
    ):
        with opened_tables(analysis, ["groups"]) as opened:
            (groups,) = opened.database.ask("SELECT count(*) AS n FROM groups").to_pylist()
            report = report_of(opened.database, opened.quality, opened.conditions)
            reports.append((groups, report))
    assert reports[0] == reports[1]


def test_a_table_that_was_not_saved_is_reported(tmp_path: Path) -> None:
    target = tmp_path / "a.duckdb"
    kanalyze.save(path("groups"), output=target)
    with (
        pytest.raises(UsageError, match="has no table records"),
        opened_tables(SavedAnalysis([str(target)]), ["records"]),
    ):
        raise AssertionError
