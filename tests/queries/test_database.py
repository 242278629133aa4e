from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kanalyze
from kanalyze.errors import KanalyzeError
from kanalyze.export.arrow import BatchMaker
from kanalyze.queries import database as database_module
from kanalyze.queries.database import Database, DerivedViews, QueryError, ScratchFolder
from kanalyze.queries.file_rows import StoreFile
from kanalyze.queries.files import Query, words_of
from tests.support.captures import path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_scratch_folder_exists_until_it_is_closed(folder: Path) -> None:
    made = ScratchFolder()
    (made.path / "file").write_bytes(b"x")
    assert made.path.parent == folder
    made.close()
    made.close()
    assert list(folder.iterdir()) == []


def test_a_folder_in_use_is_not_removed() -> None:
    first = ScratchFolder()
    second = ScratchFolder()
    assert first.path.is_dir()
    for scratch_folder in (first, second):
        scratch_folder.close()


def test_the_folder_of_a_killed_process_is_removed(folder: Path) -> None:
    code = (
        "import os, tempfile\n"
        f"tempfile.tempdir = {str(folder)!r}\n"
        "from kanalyze.queries.database import ScratchFolder\n"
        "made = ScratchFolder()\n"
        "os._exit(1)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (abandoned,) = folder.iterdir()
    made = ScratchFolder()
    assert list(folder.iterdir()) == [made.path] != [abandoned]
    made.close()


def test_a_folder_that_is_being_created_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process removes abandoned folders after each step of creating this one."""
    existing = []

    def remove_abandoned() -> None:
        made = list(Path(tempfile.gettempdir()).iterdir())
        database_module._remove_abandoned()
        existing.extend(path.is_dir() for path in made)

    lock, rename = fcntl.flock, Path.rename

    def flock(file: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX:
            remove_abandoned()
        lock(file, operation)

    def renamed(self: Path, target: Path) -> Path:
        remove_abandoned()
        found = rename(self, target)
        remove_abandoned()
        return found

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(Path, "rename", renamed)
    made = ScratchFolder()
    assert existing == [True, True, True]
    made.close()


def test_other_folders_are_left_alone(folder: Path) -> None:
    (folder / "kanalyze-tables-of-someone").mkdir()
    (folder / "other").mkdir()
    os.close(os.open(folder / "other" / "lock", os.O_CREAT))
    ScratchFolder().close()
    assert {path.name for path in folder.iterdir()} == {"kanalyze-tables-of-someone", "other"}


def query(name: str, sql: str, description: str = "") -> Query:
    return Query(name, "", description, (), sql)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> duckdb.DuckDBPyConnection:
    tables = {
        "errors": query("errors", "SELECT * FROM answered WHERE twice(n) > 2"),
        "answered": query("answered", "SELECT n FROM rows", "kept: it is read twice"),
        "unused": query("unused", "SELECT * FROM nowhere"),
    }
    macros = {"twice": query("twice", "CREATE TEMP MACRO twice(x) AS x * 2")}
    monkeypatch.setattr(database_module, "built_in", {"macros": macros}.__getitem__)
    monkeypatch.setattr(database_module, "derived", lambda: tables)
    monkeypatch.setattr(database_module, "derived_in", lambda sql: words_of(sql) & tables.keys())
    made = duckdb.connect()
    made.execute("CREATE TABLE rows AS FROM range(4) AS r(n)")
    return made


def tables_and_views(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    sql = "SELECT table_name, table_type FROM information_schema.tables WHERE table_name <> 'rows'"
    return dict(connection.execute(sql).fetchall())


def test_only_views_that_a_statement_names_are_created(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    views = DerivedViews(connection)
    views.make("SELECT 1 FROM rows")
    assert tables_and_views(connection) == {}
    views.make("SELECT 1 FROM errors")
    assert tables_and_views(connection) == {"errors": "VIEW", "answered": "LOCAL TEMPORARY"}
    assert connection.execute("FROM errors ORDER BY n").fetchall() == [(2,), (3,)]


def test_views_are_computed_again_after_rows_were_added(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    views = DerivedViews(connection)
    views.make("FROM errors")
    views.drop()
    assert tables_and_views(connection) == {}
    connection.execute("INSERT INTO rows VALUES (9)")
    views.make("SELECT twice(max(n)) FROM errors")
    assert connection.execute("SELECT twice(max(n)) FROM errors").fetchall() == [(18,)]


SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])


def batch(first: int, count: int, text: str = "x") -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pydict({"number": numbers, "text": [text] * count}, SCHEMA)


@pytest.fixture
def database() -> Iterator[Database]:
    with Database(max_memory_bytes=64 << 20, threads=1) as made:
        made.create("things", SCHEMA)
        yield made


@pytest.mark.parametrize("counts", [[], [1], [3, 20_000, 0, 5], [16_384, 16_384]])
def test_all_inserted_rows_are_stored(database: Database, counts: list[int]) -> None:
    for count in counts:
        database.insert("things", batch(0, count))
    answer = database.ask("SELECT count(*) AS n FROM things").to_pylist()
    assert answer == [{"n": sum(counts)}]


@pytest.mark.parametrize("sizes", [[20_000] * 5, [30_720, 61_440, 1], [7, 100_000]])
def test_rows_keep_their_order_in_row_groups_of_any_size(
    database: Database, sizes: list[int]
) -> None:
    first = 0
    for size in sizes:
        database.insert("things", batch(first, size, str(first)))
        first += size
    numbers = [
        n for batch_ in database.batches("things", ["number"]) for n in batch_["number"].to_pylist()
    ]
    assert numbers == list(range(first))
    assert database.ask("SELECT count(DISTINCT text) AS n FROM things")["n"].to_pylist() == [
        len(sizes)
    ]


def test_rows_may_be_inserted_between_queries(database: Database) -> None:
    for number in (1, 2):
        database.insert("things", batch(number, 1))
        assert database.ask("SELECT max(number) FROM things").to_pydict() == {
            "max(number)": [number]
        }


@pytest.mark.parametrize("mapped_rows", [0, 1, 20_000, 30_000, 100_000])
def test_rows_are_the_same_mapped_and_compressed(mapped_rows: int) -> None:
    most_bytes = mapped_rows * batch(0, 1000).nbytes // 1000
    with Database(max_memory_bytes=64 << 20, threads=2, mapped_bytes=most_bytes) as database:
        database.create("things", SCHEMA)
        database.create("others", SCHEMA)
        assert database.ask("SELECT count(*) AS n FROM things")["n"].to_pylist() == [0]
        for first in range(0, 50_000, 10_000):
            database.insert("things", batch(first, 10_000, str(first)))
            found = database.ask("FROM things").to_pydict()
            assert found["number"] == list(range(first + 10_000))
            assert found["text"] == [str(n // 10_000 * 10_000) for n in found["number"]]
        database.insert("others", batch(7, 1))
        assert database.ask("FROM others")["number"].to_pylist() == [7]
        assert (database._mapped.bytes > 0) == (mapped_rows > 50_000)


def test_rows_of_files_are_inserted_in_order(database: Database, tmp_path: Path) -> None:
    files = [str(tmp_path / f"it's {number}.parquet") for number in range(2)]
    for file, first in zip(files, (5, 1), strict=True):
        rows = pa.Table.from_batches([batch(first, 3)])
        pq.write_table(rows.append_column("more", pa.array([1, 2, 3])).select([1, 2, 0]), file)
    database.insert_files("things", files)
    database.insert("things", batch(9, 1))
    assert database.ask("FROM things")["number"].to_pylist() == [5, 6, 7, 1, 2, 3, 9]


LISTS = "l STRUCT(p BIGINT, q VARCHAR)[]"
OTHER_TYPES = (
    ("x INT", "SELECT 1.5 AS x", "DECIMAL(2,1)"),
    ("x INT", "SELECT '12' AS x", "VARCHAR"),
    ("x INT", "SELECT [1] AS x", "INTEGER[]"),
    (LISTS, "SELECT 1 AS l", "INTEGER"),
    (LISTS, "SELECT [{'p': 'a', 'q': 'b'}] AS l", "STRUCT(p VARCHAR, q VARCHAR)[]"),
)


def inserted(columns: str, files: Sequence[Path], *, as_stream: bool) -> Any:
    """The rows of a table with these columns, after those of files were inserted."""
    empty = duckdb.sql(f"SELECT unnest(s) FROM (SELECT NULL::STRUCT({columns}) AS s) WHERE false")
    with Database(max_memory_bytes=64 << 20, threads=1) as database:
        database.create("things", empty.to_arrow_table().schema)
        if not as_stream:
            database.insert_files("things", list(map(str, files)))
        for file in files if as_stream else ():
            read = pq.ParquetFile(file)
            rows = pa.RecordBatchReader.from_batches(read.schema_arrow, read.iter_batches(1))
            database.insert_files("things", [StoreFile(str(file), rows)])
        return database.values("FROM things")


@pytest.mark.parametrize("as_stream", [False, True])
def test_a_column_of_another_type_is_an_error_of_one_line(as_stream: bool, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.parquet", tmp_path / "bad.parquet"
    for columns, query, kind in OTHER_TYPES:
        duckdb.sql(f"SELECT NULL::{columns.partition(' ')[2]} AS {columns[0]}").write_parquet(
            str(good)
        )
        duckdb.sql(query).write_parquet(str(bad))
        with pytest.raises(KanalyzeError) as raised:
            inserted(columns, [good, bad], as_stream=as_stream)
        assert re.fullmatch(
            rf'.*{bad}.* column "?{columns[0]}\b.* {re.escape(kind)}[ ,].*', str(raised.value)
        )


@pytest.mark.parametrize("as_stream", [False, True])
def test_what_a_file_lacks_is_null(as_stream: bool, tmp_path: Path) -> None:
    queries = (
        "SELECT [{'p': 1::BIGINT}] AS l",
        "SELECT 3 AS x, [{'more': 0, 'q': 'b', 'p': 2::BIGINT}] AS l",
        "SELECT 4 AS x, 5 AS more",
    )
    files = [tmp_path / f"{number}.parquet" for number in range(3)]
    for file, query in zip(files, queries, strict=True):
        duckdb.sql(query).write_parquet(str(file))
    assert inserted(f"x INT, {LISTS}, y VARCHAR", files, as_stream=as_stream) == [
        (None, [{"p": 1, "q": None}], None),
        (3, [{"p": 2, "q": "b"}], None),
        (4, None, None),
    ]


def test_a_damaged_file_is_an_error_of_one_line(database: Database, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(KanalyzeError, match=r"^.*x\.parquet.*$"):
        database.insert_files("things", [str(tmp_path / "x.parquet")])


def test_request_ids_are_kept() -> None:
    rows = kanalyze.requests(str(path("any"))).to_arrow()
    ids = pa.array(range(10**12, 10**12 + len(rows)), pa.int64())
    numbered = rows.add_column(0, pa.field("request_id", pa.int64(), nullable=False), ids)
    with Database(max_memory_bytes=64 << 20, threads=1) as database:
        database.create("requests", numbered.schema)
        for batch_ in numbered.to_batches():
            database.insert("requests", batch_)
        found = database.ask("SELECT request_id, request_packet FROM requests")
        assert found.column("request_id").to_pylist() == ids.to_pylist()
        assert found.column("request_packet").to_pylist() == rows["request_packet"].to_pylist()
        (sums,) = database.ask(
            "SELECT count(*) AS lines, count(requests.request_id) AS known"
            " FROM partitions LEFT JOIN requests USING (request_id)"
        ).to_pylist()
        assert sums["lines"] == sums["known"] > 0


def test_queries_may_use_the_maximum_memory(database: Database) -> None:
    database.insert("things", batch(0, 1))
    sql = "SELECT current_setting('memory_limit') AS limit"
    assert database.ask(sql).to_pylist() == [{"limit": "64.0 MiB"}]


LARGE = Query("large", "", "", (), "SELECT length(list(i)::VARCHAR) AS n FROM range(900000) r(i)")
"""A list has to be in memory as a whole."""


def test_an_answer_that_needs_more_than_the_usual_memory_gets_it() -> None:
    sql = "SELECT current_setting('memory_limit') AS text"
    limit = Query("limit", "", "", (), sql)
    with Database(max_memory_bytes=1 << 30, usual_memory_bytes=16 << 20, threads=1) as database:
        assert database.answer(limit, {}) == [{"text": "16.0 MiB"}]
        lengths = sum(len(str(number)) for number in range(900_000)) + 2 * 900_000
        assert database.answer(LARGE, {}) == [{"n": lengths}]
        assert database.answer(limit, {}) != [{"text": "16.0 MiB"}]


def test_no_answer_gets_more_than_the_maximum() -> None:
    with (
        Database(max_memory_bytes=20 << 20, usual_memory_bytes=16 << 20, threads=1) as database,
        pytest.raises(QueryError, match=r"^query 'large': Out of Memory Error"),
    ):
        database.answer(LARGE, {})


def test_parameters_are_values_and_not_sql(database: Database) -> None:
    database.insert("things", batch(0, 1, "it's; DROP TABLE things"))
    sql = "SELECT number FROM things WHERE text = $text"
    assert len(database.ask(sql, {"text": "it's; DROP TABLE things"})) == 1
    assert len(database.ask(sql, {"text": "' OR 1 = 1 --"})) == 0


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT", "Parser Error"),
        ("SELECT x FROM things", '"x" not found'),
        ("SELECT * FROM thing", "thing does not exist"),
        ("CREATE TABLE a (b INTEGER)", "a single query"),
        ("SELECT 1; SELECT 2", "a single query"),
        ("", "a single query"),
        ("SELECT $x", "parameter"),
    ],
)
def test_an_invalid_query_is_an_error_of_one_line(
    database: Database, sql: str, problem: str
) -> None:
    with pytest.raises(QueryError, match=problem) as caught:
        database.ask(sql)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sql", ["SELECT error(text) FROM things", "SELECT text::INT FROM things"])
def test_a_query_that_fails_while_it_runs_does_not_affect_others(
    database: Database, sql: str
) -> None:
    query = Query("wrong", "", "", (), sql)
    for number in (1, 2):
        database.insert("things", batch(number, 1))
        with pytest.raises(QueryError) as caught:
            database.ask(sql)
        assert "\n" not in str(caught.value)
        with pytest.raises(QueryError, match=r"^query 'wrong': "):
            database.answer(query, {})
        assert database.ask("SELECT max(number) AS n FROM things").to_pylist() == [{"n": number}]


def test_rows_beyond_the_memory_go_to_a_temporary_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Database(max_memory_bytes=32 << 20, threads=1) as database:
        database.create("things", SCHEMA)
        for first in range(0, 600_000, 20_000):
            database.insert("things", batch(first, 20_000, f"{first:0200}"))
        (answer,) = database.ask(
            "SELECT count(*) AS n, sum(number) AS total FROM (SELECT DISTINCT * FROM things)"
        ).to_pylist()
        assert answer == {"n": 600_000, "total": sum(range(600_000))}
        assert any(file.is_file() for file in tmp_path.rglob("*"))
    assert list(tmp_path.iterdir()) == []
    database.close()


def test_requests_are_numbered_in_order_and_errors_have_their_numbers() -> None:
    maker = BatchMaker()
    rows = list(kanalyze.requests(path("errors")))
    with Database(max_memory_bytes=64 << 20, threads=1) as database:
        database.create("requests", maker.schema)
        for first in range(0, len(rows), 7):
            database.insert("requests", maker.of_rows(rows[first : first + 7]))
        packets = database.ask("SELECT request_packet FROM requests ORDER BY request_id")
        assert packets["request_packet"].to_pylist() == [row.request_packet for row in rows]
        errors = database.ask("SELECT request_id, error_code FROM errors ORDER BY request_id")
    expected = [(number, e.code) for number, row in enumerate(rows, 1) for e in row.errors]
    assert sorted(map(tuple, (line.values() for line in errors.to_pylist()))) == sorted(expected)


THREADS = "SELECT current_setting('threads') AS threads"


def test_tables_are_filled_by_one_thread_and_queried_by_all() -> None:
    """While tables are filled, each thread takes a part of the limited memory."""
    rows = batch(0, 10)
    with Database(max_memory_bytes=256 << 20, threads=3) as database:
        database.create("lines", rows.schema)
        database.insert("lines", rows)
        assert database._connection.execute(THREADS).fetchall() == [(1,)]
        assert database.ask(THREADS).to_pylist() == [{"threads": 3}]
