from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kanalyze.errors import UsageError
from kanalyze.queries.files import built_in, derived_in, find_query, read_queries

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_has_a_title_a_description_and_parameters(tmp_path: Path) -> None:
    text = "-- Who is slow?\n--\n-- At $noon and '$midnight'.\nSELECT $most, '$text' -- $other\n"
    (tmp_path / "slow.sql").write_text(text)
    (tmp_path / "notes.txt").write_text("no query")
    assert read_queries(tmp_path) == {
        "slow": ("slow", "Who is slow?", "At $noon and '$midnight'.", ("most",), text)
    }


@pytest.mark.parametrize("kind", ["macros", "tables", "views", "report", "questions"])
def test_every_built_in_query_has_a_title(kind: str) -> None:
    assert built_in(kind)
    for query in built_in(kind).values():
        assert query.title.endswith((".", "?")), query.name
        assert len(query.title) < 90, query.name


@pytest.mark.parametrize("kind", ["tables", "views", "report", "questions", "findings", "page"])
def test_no_built_in_query_rounds_to_a_number_of_decimals(kind: str) -> None:
    # DuckDB's releases differ there: round(0.15, 1) is 0.1 or 0.2.
    assert built_in(kind)
    for query in built_in(kind).values():
        for call in re.finditer(r"\bround\(", re.sub(r"--.*|'[^']*'", "", query.sql)):
            assert "," not in first_level(call.string[call.end() :]), query.name


def first_level(sql: str) -> str:
    """Return SQL up to the end of its parenthesis, without what is in others inside."""
    text, depth = "", 0
    for character in sql:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return text
        text += character if not depth else ""
    raise AssertionError(sql)


def test_decimals_are_seen() -> None:
    assert first_level("max(a, b) * 2) AS c, d") == "max) * 2"
    assert first_level("list(a, b), 1), 2") == "list), 1"


@pytest.mark.parametrize(
    ("sql", "views"),
    [
        ("SELECT lag(latency_ns) OVER (ORDER BY lag) FROM requests WHERE lag > 3", set()),
        ("FROM lag", {"lag"}),
        ('SELECT 1 FROM requests AS r, "lag" AS l WHERE true', {"lag"}),
        ("FROM requests ANTI JOIN main.Lag USING (topic)", {"lag"}),
        ("SELECT (SELECT max(lag) FROM lag)", {"lag"}),
        ("WITH lag AS (SELECT 1) FROM lag JOIN flows ON true", {"flows"}),
        ("WITH lag AS MATERIALIZED (SELECT 1) FROM lag", set()),
        ("DESCRIBE flows", {"flows"}),
        ("SUMMARIZE flows;", {"flows"}),
        ("SELECT 'FROM lag' FROM requests -- FROM flows", set()),
        ("SELECT 1 FROM requests /* before\nFROM flows, -- */", set()),
        ("SELECT '/*' FROM/**/flows -- */", {"flows"}),
        ("SELECT lag\nFROM requests\nORDER BY lag", set()),
    ],
)
def test_views_of_users_are_what_a_query_reads_from(sql: str, views: set[str]) -> None:
    assert derived_in(sql) & built_in("views").keys() == views


def test_a_query_in_a_users_folder_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "rebalances.sql").write_text("SELECT 1")
    assert find_query("rebalances", tmp_path).sql == "SELECT 1"
    assert find_query("rebalances").sql == built_in("questions")["rebalances"].sql


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    known = r"^unknown query: 'x'; there are changes, clients, "
    with pytest.raises(UsageError, match=known):
        find_query("x")
    with pytest.raises(
        UsageError, match=r"^unknown query: 'rebalance'; did you mean rebalances\?$"
    ):
        find_query("rebalance")


@pytest.mark.parametrize(
    ("data", "problem"),
    [(b"\xff", "not UTF-8"), (bytes(1 << 21), "may have at most 1 MiB")],
)
def test_a_file_that_is_not_text_is_an_error(tmp_path: Path, data: bytes, problem: str) -> None:
    (tmp_path / "bad.sql").write_bytes(data)
    with pytest.raises(UsageError, match=rf"bad\.sql: .*{problem}"):
        read_queries(tmp_path)


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none: No such file"):
        read_queries(tmp_path / "none")
