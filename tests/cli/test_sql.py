from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from kanalyze.cli.main import main
from kanalyze.queries.files import words_of
from kanalyze.spec.commands import COMMANDS
from kanalyze.spec.rows.tables import SQL_TABLES
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path

CAPTURE = str(path("groups"))
JOINS = "SELECT group_id, count(*) AS joins FROM requests WHERE api_name = 'JoinGroup' GROUP BY ALL"


def test_an_answer_is_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", CAPTURE, JOINS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["group_id", "joins"], ["groups-classic", "6"]]


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet", "txt"])
def test_the_file_extension_sets_the_format(extension: str, tmp_path: Path) -> None:
    target = tmp_path / f"joins.{extension}"
    assert main(["sql", "-o", str(target), CAPTURE, JOINS]) == 0
    if extension == "parquet":
        assert pq.read_table(target).to_pylist() == [{"group_id": "groups-classic", "joins": 6}]
    elif extension == "jsonl":
        assert json.loads(target.read_text()) == {"group_id": "groups-classic", "joins": 6}
    elif extension == "csv":
        assert target.read_text() == "group_id,joins\ngroups-classic,6\n"
    else:
        assert target.read_text().split() == ["group_id", "joins", "groups-classic", "6"]


def test_a_built_in_query_is_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--query", "rebalances", "--format", "csv", CAPTURE]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("groups-classic,6,4,2,")


def test_built_in_queries_and_those_of_a_folder_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.sql").write_text("-- How many?\nSELECT count(*) FROM $what")
    assert main(["sql", "--list", "--queries", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    mine, longest = "mine --param what=...", "connection_trace --param connection=..."
    assert f"{mine:{len(longest)}}  How many?\n" in out
    assert f"{longest}  Which requests" in out


def test_tables_are_listed_with_their_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--tables"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines if not line.startswith(" ")] == [
        *(
            "requests",
            "connections",
            "anomalies",
            "groups",
            "metadata",
            "changes",
            "client_metrics",
            "records",
        ),
        *("capture_quality", "partitions", "errors", "flows", "lag", "replication"),
    ]
    assert any(line.startswith("  committed_offset ") for line in lines)


def test_tables_are_shown_though_most_are_only_made_when_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = [table.name for table in SQL_TABLES.values()]
    assert main(["sql", CAPTURE, "SHOW TABLES"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["name", *expected]
    target = tmp_path / "tables.jsonl"
    assert main(["sql", CAPTURE, "show\ntables;", "-o", str(target)]) == 0
    assert [json.loads(line)["name"] for line in target.read_text().splitlines()] == expected


def test_the_help_names_all_tables() -> None:
    text = COMMANDS["sql"].examples.partition("examples:")[0]
    assert SQL_TABLES.keys() <= words_of(text.replace("'", ""))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM groups WHERE event = 'join'",
        "SELECT count(*) AS n FROM Groups JOIN requests USING (request_id) WHERE event = 'join'",
        "WITH g AS (FROM groups) SELECT count(*) AS n FROM g WHERE event IN ('join')",
        "SELECT (SELECT count(*) FROM \"groups\" WHERE event = 'join') AS n -- metadata",
    ],
)
def test_a_table_is_filled_if_the_query_names_it(
    query: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", "--format", "csv", CAPTURE, query]) == 0
    assert capsys.readouterr().out == "n\n7\n"


def test_strings_and_comments_of_a_query_name_no_tables() -> None:
    sql = "SELECT 'groups' /* changes\n */ FROM requests -- metadata\n"
    assert not words_of(sql) & {"groups", "metadata", "changes"}
    assert {"groups", "metadata"} <= words_of("FROM groups, main.METADATA")


def test_parameters_are_values_in_the_query(capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT count(*) AS n FROM requests WHERE api_key = $key AND api_name = $name"
    words = ["--param", "key=11", "--param", "name=JoinGroup", "--format", "csv"]
    assert main(["sql", *words, CAPTURE, sql]) == 0
    assert capsys.readouterr().out == "n\n6\n"


def test_filters_apply_to_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sql", "--api", "Heartbeat", "--format", "csv", CAPTURE]
    assert main([*words, "SELECT DISTINCT api_name FROM requests"]) == 0
    assert capsys.readouterr().out == "api_name\nHeartbeat\n"


def test_control_characters_in_answers_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", CAPTURE, "SELECT chr(27) || '[31m' AS a, [1, NULL] AS b, NULL AS c"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["\\u001b[31m", "1,", "-", "-"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_descriptions_of_columns_are_wrapped_on_a_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", "--tables"]) == 0
    whole = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["sql", "--tables"]) == 0
    wrapped = capsys.readouterr().out
    assert max(map(len, wrapped.splitlines())) <= width
    assert wrapped.split() == whole.split()


def test_an_answer_without_rows_has_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", CAPTURE, "SELECT 1 AS one WHERE false"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("one\n", "kanalyze: the answer has no rows\n")


@pytest.mark.parametrize("width", [80, 100, 200])
def test_flows_fit_a_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["flows", CAPTURE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    has_all = "response_bytes" in lines[0].split()
    assert {"client_id", "topic", "record_bytes"} <= set(lines[0].split())
    assert has_all == (width == 200)
