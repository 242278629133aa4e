"""Each command has the same output for a saved file as for its captures."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pytest

import kanalyze
from kanalyze.api.tables import tables_to_save
from kanalyze.cli.main import main
from kanalyze.queries.saved import LAYOUT
from kanalyze.spec.columns import TYPES
from kanalyze.spec.rows.records import VALUE_COLUMNS
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.spec.rows.tables import ALWAYS
from kanalyze.tables.filters import BrokerAddress
from tests.support.captures import NAMES, in_turn, often, path

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent.parent
RUN = [sys.executable, "-c", "from kanalyze.cli.main import run; run()"]
FORMATS = ("csv", "jsonl", "parquet", "table")
FEWER_NAMES = ("errors", "groups", "snaplen", "tls")
DEFAULT_REPORTS = ("groups", "snaplen")
DEFAULT_NAMES = ("codecs", "errors", "old-0-8-2-2", "sasl")


class Result(NamedTuple):
    """The result of a command: its outputs and its file."""

    status: int
    out: str
    err: str
    file: bytes | None


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Callable[[str], Path]:
    """Save a capture of the repository, once."""
    folder = tmp_path_factory.mktemp("saved")

    @cache
    def save(name: str) -> Path:
        target = folder / f"{name}.duckdb"
        assert main(["save", "-o", str(target), str(path(name))]) == 0
        return target

    return save


OLDEST_STORAGE = 64
"""The version of the storage that DuckDB 1.1 and all later ones read."""


def test_a_saved_file_is_in_a_format_that_older_duckdb_reads(saved):
    head = saved("errors").read_bytes()[:20]
    assert head[8:12] == b"DUCK"
    assert int.from_bytes(head[12:20], "little") == OLDEST_STORAGE


@pytest.mark.parametrize(
    ("words", "left_out"),
    [
        ([], "records (--records keeps them, without keys and values)"),
        (["--records"], "keys, values and headers of records"),
    ],
)
def test_saving_says_what_is_left_out(words, left_out, tmp_path, capsys):
    target = str(tmp_path / "a.duckdb")
    assert main(["save", *words, "-o", target, str(path("errors"))]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"kanalyze: {target}: leaves out {left_out}, and packets\n"


def test_saving_says_that_metrics_of_clients_cannot_be_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("kanalyze.api.tables.find_spec", lambda _name: None)
    target = str(tmp_path / "a.duckdb")
    assert main(["save", "-o", target, str(path("errors"))]) == 0
    assert ", client_metrics (kanalyze[otlp] reads them), and packets" in capsys.readouterr().err


def test_records_are_saved_if_asked_for(tmp_path, run):
    target = str(tmp_path / "a.duckdb")
    assert run("save", "--records", "-o", target, str(path("codecs"))).status == 0
    sql = ["sql", "--format", "csv"]
    expected = run(*sql, str(path("codecs")), "FROM records")
    assert expected.out.count("\n") > 100
    assert run(*sql, target, "FROM records") == expected
    expected = run("report", "--json", "-", str(path("codecs")))
    assert run("report", "--json", "-", target) == expected
    names = {
        name
        for name, *_ in duckdb.connect(target, read_only=True).sql("DESCRIBE records").fetchall()
    }
    assert not names & VALUE_COLUMNS


def test_timestamps_of_a_saved_file_are_made_by_functions_that_duckdb_1_1_has(saved):
    with duckdb.connect(str(saved("errors")), read_only=True) as connection:
        ((sql,),) = connection.sql(
            "SELECT macro_definition FROM duckdb_functions() "
            "WHERE NOT internal AND function_name = 'make_timestamp_ns'"
        ).fetchall()
        for ns in (0, 1, -1, -999_999_999, 10**18, 1795214769000000001, 2**63 - 2):
            made, expected = connection.execute(
                "SELECT make_timestamp_ns($ns)::VARCHAR, "
                "system.main.make_timestamp_ns($ns)::VARCHAR",
                {"ns": ns},
            ).fetchall()[0]
            assert made == expected
    assert "make_timestamp_ns" not in sql


@pytest.mark.long
def test_duckdb_1_1_opens_a_saved_file(saved, tmp_path):
    """It installs DuckDB 1.1 into a folder of its own, from PyPI."""
    words = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path)]
    subprocess.run([*words, "duckdb==1.1.3"], check=True)
    code = (
        "import duckdb, sys; own = duckdb.connect(sys.argv[1], read_only=True); "
        "names = own.execute('SELECT view_name FROM duckdb_views() WHERE NOT internal').fetchall();"
        "lines = [own.execute(f'SELECT * FROM {name}').fetchall() for name, in names]; "
        "print(duckdb.__version__, len(lines), *own.execute('SELECT count(*), "
        "sum(len(partitions)), sum(len(errors)) FROM requests').fetchone())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(saved("errors"))],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    rows = list(kanalyze.requests(path("errors")))
    counts = len(rows), sum(len(row.partitions) for row in rows), sum(len(r.errors) for r in rows)
    views = len((*ALWAYS, *tables_to_save(records=False), "partitions", "errors"))
    assert done.stdout.split() == ["1.1.3", str(views), *map(str, counts)]


@pytest.fixture
def run(tmp_path, capsys, monkeypatch) -> Callable[..., Result]:
    """Run a command whose arguments may name a file that it writes as ``{out}``."""
    monkeypatch.setenv("COLUMNS", "160")

    def run_command(*argv: str) -> Result:
        out = tmp_path / "out"
        out.unlink(missing_ok=True)
        capsys.readouterr()  # discards the output of saving
        status = main([word.format(out=out) for word in argv])
        captured = capsys.readouterr()
        file = out.read_bytes() if out.exists() else None
        return Result(status, captured.out, captured.err, file)

    return run_command


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("command", "name", "row_format"),
    [
        pytest.param(command, *case.values, marks=case.marks)
        for command, default_names in (
            ("requests", DEFAULT_NAMES),
            ("connections", FEWER_NAMES),
            ("anomalies", FEWER_NAMES),
        )
        for case in in_turn(NAMES, FORMATS, default_names)
    ],
)
def test_rows_equal_those_of_the_capture_byte_for_byte(command, name, row_format, saved, run):
    words = [command, "--format", row_format, "-o", "{out}"]
    expected = run(*words, str(path(name)))
    assert expected.file is not None
    assert run(*words, str(saved(name))) == expected


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "option"), in_turn(NAMES, ["--json", "--html"], DEFAULT_REPORTS))
def test_the_report_equals_that_of_the_capture_byte_for_byte(name, option, saved, run):
    words = ["report", option, "{out}"]
    expected = run(*words, str(path(name)))
    assert expected.file is not None
    assert run(*words, str(saved(name))) == expected


FILTERS = (
    ["--api", "Fetch", "--api", "18"],
    ["--errors"],
    ["--slower-than", "1ms"],
    ["--topic", "*a*"],
    ["--group", "*"],
    ["--status", "error", "--error", "UNKNOWN_TOPIC_OR_PARTITION", "--error", "79"],
    ["--partition", "0", "--partition", "g*-1"],
    ["--client-id", "*-[a-m]*"],
    ["--client-ip", "127.0.0.0/8"],
    ["--broker", "127.0.0.1"],
    ["--since", "22:46:12", "--until", "22:50"],
)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("command", "words"),
    [
        *(("requests --format csv -o {out}", words) for words in FILTERS),
        # Reports use the same filter, so one of them is enough.
        *(
            pytest.param("report --json {out}", words, marks=pytest.mark.long if number else ())
            for number, words in enumerate(FILTERS)
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", often(["basics", "groups"], ["groups"]))
def test_filters_select_the_same_rows_as_for_the_capture(command, words, name, saved, run):
    expected = run(*command.split(), *words, str(path(name)))
    assert run(*command.split(), *words, str(saved(name))) == expected


@pytest.mark.few(2)
@pytest.mark.parametrize("command", ["connections", "anomalies"])
@pytest.mark.parametrize("words", FILTERS[8:], ids=" ".join)
def test_filters_on_addresses_and_times_apply_to_connections_and_anomalies(
    command, words, saved, run
):
    words = [command, "--format", "csv", "-o", "{out}", *words]
    assert run(*words, str(saved("snaplen"))) == run(*words, str(path("snaplen")))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "command"), in_turn(NAMES, ["requests", "connections"], DEFAULT_NAMES)
)
def test_the_broker_option_filters_saved_rows_or_is_refused(name, command, saved, run):
    words = [command, "--format", "csv", "-o", "{out}"]
    brokers = {(row.broker_ip, row.broker_port) for row in kanalyze.connections(path(name))}
    for address in sorted(brokers):
        broker = str(BrokerAddress(*address))
        result = run(*words, "--broker", broker, str(saved(name)))
        if result.status == 2:
            assert "were not taken for Kafka when they were saved" in result.err
        else:
            assert result == run(*words, "--broker", broker, str(path(name)))


@pytest.mark.few(1)
@pytest.mark.parametrize("words", [[], ["--api", "JoinGroup"]])
def test_sql_has_the_same_answers_as_for_the_capture(words, saved, run):
    tables = ("errors", "requests", "partitions", "connections", "anomalies")[: 1 if words else 5]
    # Each line as text, with the names of its columns.
    all_lines = " UNION ALL ".join(
        f"SELECT {table}::VARCHAR AS line FROM {table}" for table in tables
    )
    sql = ["sql", *words, "-o", "{out}", "--format", "csv"]
    expected = run(*sql, str(path("groups")), all_lines)
    assert expected.file is not None
    assert words or all(b"'%s':" % name in expected.file for name in (b"codec", b"closed_ns"))
    assert run(*sql, str(saved("groups")), all_lines) == expected
    sql = (
        "SELECT count(*) AS n FROM groups AS g JOIN requests AS r USING (request_id) "
        "WHERE g.request_packet = r.request_packet AND g.api_name = 'JoinGroup'"
    )
    answer = run("sql", *words, "--format", "csv", str(saved("groups")), sql)
    assert answer.out == "n\n6\n"


@pytest.mark.long
def test_the_report_shows_the_filter_of_the_saved_rows(tmp_path, run):
    target = str(tmp_path / "a.duckdb")
    words = ["--api", "Fetch", "--since", "22:46:12", "--status", "ok", "--partition", "0"]
    assert run("save", *words, "-o", target, str(path("basics"))).status == 0
    expected = run("report", *words, "--json", "{out}", str(path("basics")))
    assert run("report", "--json", "{out}", target) == expected
    more = [*words, "--client-id", "*a*"]
    expected = run("requests", *more, "--format", "csv", str(path("basics")))
    assert expected.out.count("\n") > 1
    assert run("requests", "--client-id", "*a*", "--format", "csv", target) == expected
    both = run("report", "--api", "Produce", "--since", "22:46:11", "--json", "{out}", target)
    report = json.loads(both.file or b"")
    assert report["totals"]["rows"] == 0
    report_filter = report["filter"]
    assert (report_filter["api"], report_filter["saved"]) == (["Produce"], {"api": ["Fetch"]})
    assert "API Produce; partition 0; status ok; since" in " ".join(both.out.split())
    assert "as saved: API Fetch" in both.out


# -- several files --------------------------------------------------------------------------------


@pytest.mark.long
def test_several_files_are_read_one_after_the_other(saved, run):
    first, second = str(saved("basics")), str(saved("errors"))
    parts = [run("requests", "--format", "jsonl", file).out for file in (first, second)]
    both = run("requests", "--format", "jsonl", first, second, first).out.splitlines()
    lines = [json.loads(line) for part in parts for line in part.splitlines()]
    rows = [json.loads(line) for line in both]
    assert [{**a, "connection_number": 0} for a in rows] == [
        {**a, "connection_number": 0} for a in lines
    ]
    keys = {(row["capture"], row["connection"], row["connection_number"]) for row in rows}
    assert len({key[1:] for key in keys}) == len(keys)
    summary = json.loads(run("report", "--json", "-", first, second).out)
    apart = [quality_of(file) for file in (first, second)]
    for name in ("packets", "connections", "kafka_bytes"):
        assert summary["quality"][name] == sum(quality[name] for quality in apart)
    assert summary["totals"]["rows"] == len(lines)


def quality_of(file: str) -> dict[str, Any]:
    rows = kanalyze.requests(file)
    assert list(rows)
    assert rows.quality is not None
    return rows.quality.to_dict()


def test_request_ids_are_unique_across_files(saved, run):
    sql = (
        "SELECT count(*) AS n, count(DISTINCT request_id) AS ids, "
        "(SELECT count(*) FROM groups JOIN requests AS r USING (request_id) "
        "WHERE groups.correlation_id = r.correlation_id) = (SELECT count(*) FROM groups) AS same "
        "FROM requests"
    )
    files = [str(saved("groups")), str(saved("next-groups"))]
    n, ids, same = run("sql", "--format", "csv", *files, sql).out.splitlines()[1].split(",")
    assert n == ids
    assert same == "true"


def test_files_saved_with_different_filters_cannot_be_read_together(tmp_path, saved, run):
    target = str(tmp_path / "a.duckdb")
    assert run("save", "--api", "Fetch", "-o", target, str(path("errors"))).status == 0
    result = run("report", str(saved("basics")), target)
    assert result.status == 2
    assert "was saved with another filter" in result.err


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["decode", "{saved}"], "has rows, not packets"),
        (["records", "{saved}"], "has rows, not packets"),
        (["save", "-o", "{folder}/b.duckdb", "{saved}"], "has rows, not packets"),
        (["requests", "{saved}", "{capture}"], "is not read together with a capture"),
        (["requests", "--port", "9092", "{saved}"], "--port has no effect on the saved file"),
        (["requests", "--topic-ids", "{capture}", "{saved}"], "--topic-ids has no effect"),
        (["report", "--definitions", "{folder}", "{saved}"], "--definitions has no effect"),
        (["requests", "--api", "Fetsch", "{saved}"], "did you mean Fetch"),
        (["sql", "{saved}", "FROM records"], "has no table records"),
        (["sql", "{saved}", "FROM read_text('/etc/hostname')"], "Cannot access file"),
        (["sql", "{saved}", "COPY requests TO '/tmp/x.csv'"], "a single query"),
        (["sql", "{saved}", "DELETE FROM stored.requests"], "a single query"),
        (["sql", "{saved}", "ATTACH '/tmp/x.duckdb'"], "a single query"),
        (["requests", "-o", "{saved}", "--format", "csv", "{saved}"], "is also an input"),
        (["save", "-o", "-", "{capture}"], "not saved to a stream"),
        (["save", "-o", "/dev/null", "{capture}"], "not saved to a stream"),
        (["save", "-o", "{folder}/no/b.duckdb", "{capture}"], "No such file"),
        (["save", "-o", "{folder}/b.duckdb", "{folder}/none.pcap"], "none.pcap"),
    ],
    ids=str,
)
def test_invalid_arguments_are_reported_in_one_line(words, problem, saved, tmp_path, run):
    file = saved("basics")
    before = file.read_bytes()
    values = {"saved": file, "capture": path("basics"), "folder": tmp_path}
    result = run(*(word.format(**values) for word in words))
    assert (result.status, result.out) == (2, "")
    assert problem in result.err
    assert result.err.count("\n") == 1
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == []


def test_the_message_about_no_rows_equals_that_of_the_capture(saved, run):
    words = ["requests", "--client-id", "nobody"]
    expected = run(*words, str(path("basics")))
    assert "no requests match --client-id nobody" in expected.err
    assert run(*words, str(saved("basics"))) == expected
    expected = run("requests", str(path("tls")))
    assert (
        "no Kafka requests found; 25 TLS connections not decrypted: give a key log (--keylog FILE)"
        in expected.err
    )
    file = str(saved("tls"))
    assert run("requests", file) == expected


# -- changed files --------------------------------------------------------------------------------


def changed(saved: Path, target: Path, *statements: str) -> str:
    """Return a copy of a file in which some SQL statements were run."""
    target.write_bytes(saved.read_bytes())
    with duckdb.connect(str(target)) as connection:
        for statement in statements:
            connection.execute(statement)
    return str(target)


ROWS = "stored.requests"


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (["DROP SCHEMA stored CASCADE"], "kanalyze did not save"),
        (["DROP TABLE stored.header"], "kanalyze did not save"),
        (["DELETE FROM stored.header"], "damaged header"),
        (["UPDATE stored.header SET value = '{' WHERE name = 'quality'"], "damaged header"),
        (["UPDATE stored.header SET value = NULL"], "damaged header"),
        (["UPDATE stored.header SET value = '[]' WHERE name = 'quality'"], "damaged header"),
        (["UPDATE stored.header SET value = '{\"x\": 1}' WHERE name = 'filter'"], "damaged header"),
        (["UPDATE stored.header SET value = repeat('[', 100000)"], "damaged header"),
        (
            ["UPDATE stored.header SET value = repeat(' ', 17000000) WHERE name = 'quality'"],
            "header is too large",
        ),
        (
            [f"UPDATE stored.header SET value = '{LAYOUT + 1}' WHERE name = 'layout'"],
            "was saved by a newer kanalyze",
        ),
        ([f"ALTER TABLE {ROWS} DROP client_ip"], "with this kanalyze"),
        ([f"ALTER TABLE {ROWS} ALTER api_key TYPE VARCHAR"], "is invalid"),
        (
            [
                "CREATE VIEW stored.other AS SELECT * FROM stored.requests",
                "DROP TABLE stored.requests",
                "CREATE VIEW stored.requests AS SELECT * FROM read_csv('/etc/passwd')",
            ],
            "with this kanalyze",
        ),
        (
            [
                f"ALTER TABLE {ROWS} RENAME TO before",
                f"CREATE TABLE {ROWS} AS SELECT * EXCLUDE client_id FROM stored.before LIMIT 0",
            ],
            None,
        ),
        (
            [
                f"ALTER TABLE {ROWS} DROP partitions",
                f"ALTER TABLE {ROWS} ADD COLUMN partitions STRUCT(topic VARCHAR)[]",
            ],
            "is damaged",
        ),
        (
            [
                f"ALTER TABLE {ROWS} DROP partitions",
                f"ALTER TABLE {ROWS} ADD COLUMN partitions STRUCT(topic INTEGER)[]",
            ],
            "column partitions of requests is invalid",
        ),
        ([f"UPDATE {ROWS} SET capture = NULL"], "is damaged"),
        ([f"UPDATE {ROWS} SET errors = [NULL]"], "is damaged"),
    ],
    ids=str,
)
def test_a_changed_file_is_reported_in_one_line(statements, problem, saved, tmp_path, run):
    file = changed(saved("basics"), tmp_path / "a.duckdb", *statements)
    result = run("requests", "--format", "jsonl", file)
    if problem is None:  # older files lack this column, which may be null
        assert (result.status, result.out) == (0, "")
        return
    assert result.status == 2
    assert problem in result.err
    assert result.err.count("\n") == 1


FIELDS = [(column, field) for column in COLUMNS for field in column.fields]


@pytest.mark.few(4)
@pytest.mark.parametrize(("column", "field"), FIELDS, ids=[f"{c.name}.{f.name}" for c, f in FIELDS])
def test_a_field_that_an_older_file_lacks_is_null(column, field, saved, tmp_path, run):
    """Fields stand in any order, and may be more than this kanalyze knows."""
    kinds = [f'"{each.name}" {TYPES[each.type].sql}' for each in column.fields if each != field]
    file = changed(
        saved("errors"),
        tmp_path / "older.duckdb",
        f"DROP VIEW main.{column.name}",
        f"ALTER TABLE {ROWS} ALTER {column.name} TYPE STRUCT({', '.join(kinds[::-1])}, x DATE)[]",
    )
    if not field.nullable:
        result = run("requests", file)
        problem = f"has no column {column.name}.{field.name} of requests: save the captures again"
        assert result.status == 2
        assert problem in result.err
        return
    before = [
        row._replace(**{column.name: [item._replace(**{field.name: None}) for item in items]})
        for row in kanalyze.requests(str(saved("errors")))
        for items in [getattr(row, column.name)]
    ]
    assert any(getattr(row, column.name) for row in before)
    assert list(kanalyze.requests(file)) == before
    count = (
        f"SELECT count(i.{field.name}) AS n FROM (SELECT unnest({column.name}) AS i FROM requests)"
    )
    assert kanalyze.sql(file, count).to_pylist() == [{"n": 0}]


def test_a_generated_column_is_refused(saved, tmp_path, run):
    """DuckDB would compute the expression in this process."""
    names = [row[0] for row in columns_of(saved("basics"))]
    columns = ", ".join(
        f"{name} {kind}"
        if name != "client_id"
        else "client_id VARCHAR GENERATED ALWAYS AS (version() || capture)"
        for name, kind in columns_of(saved("basics"))
    )
    assert "client_id" in names
    file = changed(
        saved("basics"),
        tmp_path / "a.duckdb",
        "DROP TABLE stored.requests",
        f"CREATE TABLE stored.requests ({columns})",
    )
    result = run("requests", file)
    assert result.status == 2
    assert "column client_id of requests is invalid" in result.err


def columns_of(file: Path) -> list[tuple[str, str]]:
    with duckdb.connect(str(file), read_only=True) as connection:
        lines = connection.execute("DESCRIBE stored.requests").fetchall()
    return [(f'"{line[0]}"' if line[0] == "end" else line[0], line[1]) for line in lines]


def test_views_of_a_file_are_not_run(saved, tmp_path, run):
    file = changed(
        saved("basics"),
        tmp_path / "a.duckdb",
        "CREATE OR REPLACE VIEW main.requests AS SELECT 1 AS evil",
        "CREATE OR REPLACE VIEW main.partitions AS SELECT * FROM read_text('/etc/passwd')",
        "CREATE OR REPLACE MACRO main.make_timestamp_ns(x) AS error('evil')",
    )
    words = ["requests", "--format", "csv"]
    assert run(*words, file) == run(*words, str(path("basics")))
    sql = "SELECT count(*) AS n, count(request_start_time) > 0 AS t FROM partitions"
    words = ["sql", "--format", "csv"]
    assert run(*words, file, sql) == run(*words, str(path("basics")), sql)


def test_an_invalid_address_in_a_saved_file_is_reported_as_damage(saved, tmp_path, run):
    statement = f"UPDATE {ROWS} SET client_ip = 'nowhere'"
    file = changed(saved("basics"), tmp_path / "a.duckdb", statement)
    result = run("requests", "--client-ip", "10.0.0.1", file)
    assert result.status == 2
    assert "is damaged" in result.err


def test_another_duckdb_file_is_reported_in_one_line(tmp_path, run):
    file = tmp_path / "mine.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE requests AS SELECT 1 AS x")
    result = run("report", str(file))
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert "a DuckDB file that kanalyze did not save" in result.err


# -- writing --------------------------------------------------------------------------------------


def test_other_programs_can_query_the_file(saved):
    with duckdb.connect(str(saved("basics")), read_only=True) as connection:
        sql = "SELECT epoch_ns(request_start_time), request_start_ns FROM requests"
        lines = connection.execute(sql).fetchall()
        assert lines
        assert all(time_ns == start_ns for time_ns, start_ns in lines)
        assert connection.execute("SELECT count(*) FROM partitions").fetchone() != (0,)
        header = dict(connection.execute("FROM stored.header").fetchall())
    assert json.loads(header["kanalyze_version"]) == kanalyze.__version__
    assert json.loads(header["layout"]) == LAYOUT


def test_an_existing_file_is_replaced_and_keeps_its_mode(tmp_path, run):
    target = tmp_path / "a.duckdb"
    target.write_text("old")
    target.chmod(0o600)
    assert run("save", "-o", str(target), str(path("basics"))).status == 0
    assert target.stat().st_mode & 0o777 == 0o600
    assert run("requests", str(target)).status == 0
    assert [file.name for file in tmp_path.iterdir()] == ["a.duckdb"]


def test_an_existing_file_is_kept_after_an_error(tmp_path, run):
    target = tmp_path / "a.duckdb"
    target.write_text("old")
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(b"this is no capture at all")
    assert run("save", "-o", str(target), str(bad)).status == 2
    assert target.read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.duckdb", "bad.pcap"]


@pytest.mark.long
def test_two_processes_read_one_file_at_once(saved):
    command = [*RUN, "requests", "--format", "csv", str(saved("basics"))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    outputs: list[bytes] = []

    def read() -> None:
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
        outputs.append(done.stdout)

    threads = [threading.Thread(target=read) for _ in range(2)]
    with duckdb.connect(str(saved("basics")), read_only=True):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(outputs) == 2
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"\n") > 100


# -- the library ----------------------------------------------------------------------------------


@pytest.mark.long
def test_the_library_saves_and_reads(tmp_path):
    target = tmp_path / "a.duckdb"
    kanalyze.save(path("errors"), output=target, api=["Produce", "Fetch"])
    for function in (kanalyze.requests, kanalyze.connections, kanalyze.anomalies):
        filters = {"api": ["Produce", "Fetch"]} if function is kanalyze.requests else {}
        rows, expected = function(target), function(path("errors"), **filters)
        assert list(rows) == list(expected)
        assert rows.to_arrow().equals(expected.to_arrow())
        assert rows.quality is not None
        assert expected.quality is not None
        assert rows.quality.to_dict() == expected.quality.to_dict()
    expected_report = kanalyze.report(path("errors"), api=["Produce", "Fetch"], errors=True)
    assert kanalyze.report(target, errors=True) == expected_report
    with pytest.raises(kanalyze.UsageError, match=r"^port: has no effect on the saved file"):
        kanalyze.requests(target, port=9092)
    with pytest.raises(kanalyze.CaptureError, match="has rows, not packets"):
        list(kanalyze.decode(target))


@pytest.mark.parametrize("raised", [duckdb.InternalException, RuntimeError, ValueError, IndexError])
def test_whatever_duckdb_raises_for_a_damaged_file_is_one_line(
    raised, saved, monkeypatch, capsys, tmp_path
):
    """DuckDB passes on errors of C++ that it meets in damaged files."""
    damaged = tmp_path / "a.duckdb"
    damaged.write_bytes(saved("errors").read_bytes())

    def union(*_):
        raise raised("vector::_M_range_check\nand more")

    monkeypatch.setattr("kanalyze.queries.saved._union", union)
    capsys.readouterr()
    for command in ("report", "requests", "sql"):
        words = ["SELECT 1"] if command == "sql" else []
        assert main([command, str(damaged), *words]) == 2
        captured = capsys.readouterr()
        assert captured.err == f"kanalyze: {damaged}: cannot be read: vector::_M_range_check\n"


@pytest.mark.few(6)
@pytest.mark.parametrize("seed", range(60))
def test_damage_anywhere_is_one_line_or_harmless(seed, saved, capsysbinary, tmp_path):
    dice = random.Random(seed)
    data = bytearray(saved("errors").read_bytes())
    if seed % 3 == 0:
        del data[dice.choice([0, 1, 8, 12, 4096, 12_288, dice.randrange(len(data))]) :]
    else:
        for _ in range(1 if seed % 3 == 1 else 30):
            data[dice.randrange(dice.choice([12_288, 65_536, len(data)]))] ^= 1 << dice.randrange(8)
    damaged = tmp_path / "a.duckdb"
    damaged.write_bytes(data)
    for command in ("report", "requests", "connections", "anomalies"):
        status = main([command, str(damaged)])
        err = capsysbinary.readouterr().err
        assert (status, err.count(b"\n")) in ((0, 0), (2, 1)), err
