"""What cannot be done is said in one line, with status 2; nothing is written."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from kanalyze.cli.main import main
from tests.support.captures import ROOT, path

if TYPE_CHECKING:
    from pathlib import Path

CAPTURES = {name: str(path(name)) for name in ("any", "basics", "errors", "groups", "waits")}
REPORTS = f"{ROOT}/reports/basics.json {ROOT}/reports/waits.json"
WRONG_SQL = "-- Wrong.\n--\n-- severity: 1\n-- sure: yes\n-- why: -\n-- repair: -\nSELECT FROM (\n"

REFUSED = {
    "report --api Prodoce x.pcap": "unknown API: 'Prodoce'; did you mean Produce",
    "report --slower-than 10 x.pcap": "not a duration: '10'",
    "report --since soon x.pcap": "not a time: 'soon'",
    "report --client-ip host x.pcap": "not an IP address or network: 'host'",
    "report --broker host:9092 x.pcap": "not a broker address: 'host:9092'",
    "report --status fine {errors}": "unknown status: 'fine'; there are ok, error, one_way, ",
    "report --error NOT_LEADER {errors}": "'NOT_LEADER'; did you mean NOT_LEADER_OR_",
    "report --partition orders {errors}": "not a partition: 'orders' (such as 3 or orders-3)",
    "report -o r.csv {errors}": "cannot tell the format of 'r.csv' from its ending; give --format",
    "report --format json --sort p99 {errors}": "--sort works for text and md only: j",
    "report -o r.html --limit 3 {errors}": "--limit works for text and md only: html has",
    "report --json - --format md {errors}": "--json - and --format md would both use standard",
    "report -- --slowr-than": "--slowr-than: no such file",
    "report --client-id=--odd --topic '-- odd --' /no/file": "/no/file: no such file",
    "requests -o no/out.csv {any}": "no/out.csv: No such file or directory",
    "requests -o rows.xml {any}": "cannot tell the format of 'rows.xml'",
    "requests --columns nope {any}": "unknown column: 'nope'",
    "requests --columns , {any}": "columns: name at least one",
    "records -o rows.xml {any}": "cannot tell the format of 'rows.xml'",
    "records --columns offset,value {any}": "column 'value' has users' data: use --values",
    "records --columns nope {any}": "unknown column: 'nope'",
    "anomalies --kind lost x.pcap": "lost_bytes",
    "decode -o x.csv {any}": "cannot tell the format of 'x.csv'",
    "decode --all {any}": "--all works for text only: jsonl has everything",
    "decode --api Prodduce {any}": "did you mean Produce",
    "decode --api \u00b2 {any}": "unknown API",
    "decode no-such-file.pcap": "no-such-file.pcap",
    "decode -o /no/such/folder/x.jsonl {any}": "No such file",
    "protocol Fecth": "unknown API: 'Fecth'; did you mean Fetch",
    "protocol eror": "errors",
    "protocol 999": "no API has the key 999; keys are 0 to",
    "protocol zzzzzz": "unknown API: 'zzzzzz'",
    "protocol \x1b[31m": "unknown API: '\\x1b[31m'",
    "anonymize --key '' -o a.pcapng {any}": "the key is empty",
    "anonymize --key @/no/such/file -o a.pcapng {any}": "/no/such/file: No such file",
    "anonymize --max-memory 1M -o a.pcapng {any}": "too little memory",
    "anonymize /no/such/capture -o a.pcapng {any}": "/no/such/capture",
    "extract -o x.csv {basics}": "x.csv: extract writes a capture (pcapng), not .csv: use ",
    "anonymize -o x.json {basics}": "x.json: anonymize writes a capture (pcapng), not .json",
    "save -o x.Parquet {basics}": "x.Parquet: save writes a database (DuckDB), not .parquet",
    "compare {basics} there-is-none.pcap": "there-is-none.pcap",
    "compare {reports} --errors": "filters need captures",
    "compare {truth} {basics}": "not a report",
    "compare {basics} {waits} --at-least 0": "kanalyze: --at-least: not a number above 1: 0.0",
    "compare {basics} {waits} --least-ms -1": "kanalyze: --least-ms: not a number of milliseconds",
    "compare {basics} {waits} --least-percent 101": "--least-percent: not a number from 0 to 100",
    "compare {basics} {waits} --json - --format md": "--json - and --format md would both use",
    "sql {groups}": " is a file, not a query: add a query, such as",
    "sql 'SELECT 1' {groups}": "the query comes last, after the captures: SELECT 1",
    "sql 'SELECT 1'": "no capture given",
    "sql": "no query given",
    "sql {groups} 'SELEC 1'": "Parser Error",
    "sql {groups} 'SELECT clientid FROM requests'": "not found in FROM clause! Candidate",
    "sql {groups} 'FROM reqests'": 'Table with name reqests does not exist! Did you mean "req',
    "sql {groups} 'DROP TABLE requests'": "use a single query",
    "sql --query none {groups}": "unknown query: 'none'",
    "sql --query connection_trace {groups}": "needs a parameter: add --param connection=...",
    "sql --query rebalances --param x=1 {groups}": "has no parameter 'x'",
    "sql 'no such file.pcap' 'SELECT 1'": "no such file.pcap",
    "batch captures/ --out a --finish": "--finish needs --checkpoint",
    "batch captures/ --out a --split-size 1000": "--split-size: use at least 1048576 bytes",
    "batch captures/ --out a --api Nope": "unknown API: 'Nope'",
    "batch captures/ --out a --since soon": "soon",
    "batch captures/ --out a --topic-ids no/such/file": "no/such/file",
    "batch captures/ --out a --definitions no/such/folder": "no/such/folder",
    "batch captures/ --out a --threshold nothing.least=1": "unknown threshold: 'nothing.least'",
    "batch captures/ --out a --queries no/such/folder": "no/such/folder",
    "batch captures/ --out a --queries {queries}": "query 'wrong': ",
    "batch captures/ --out a --master nowhere": "not a Spark master: 'nowhere'",
    "batch captures/ --out a --json no/such/report.json": "no/such",
    "batch captures/ --out a --format json --sort p99": "--sort works for text and md",
    "batch captures/ --out a --format md --json -": "--json - and --format md would both use",
}
"""Words of a command, and what its message has."""

MISUSED = {
    "report": "the following arguments are required: CAPTURE",
    "report --port 0 x": "argument --port: not a TCP port: '0'",
    "report --port 65536 x": "argument --port: not a TCP port: '65536'",
    "report --port kafka x": "argument --port: not a TCP port: 'kafka'",
    "report --sort p95 x": "argument --sort: invalid choice: 'p95' (choose from ",
    "report --limit 0 x": "argument --limit: not a number from 1 to 65536: '0'",
    "report --format csv x": "argument --format: invalid choice: 'csv'",
    "requests --format xml x": "argument --format: invalid choice: 'xml'",
    "records --max-records 0 x": "argument --max-records: not a number from 1 to 2147483647: '0'",
    "records --max-records -1 x": "argument --max-records: ",
    "records --max-records x x": "argument --max-records: not a number",
    "records --max-records 2147483648 x": "argument --max-records: not a number",
    f"records --max-records {'9' * 5000} x": "argument --max-records: not a number",
    **{
        f"report --jobs {text} x": "not a number of jobs from 1 to 256"
        for text in ("0", "-1", "two", "257", "1.5", "\u0661")
    },
    "compare x": "the following arguments are required: B",
    "compare x x x": "unrecognized arguments: x",
    "compare x x --fail-on worse": "not one of findings, slower, errors, new, gone, any: 'worse'",
    "completion tcsh": "invalid choice: 'tcsh'",
    "anonymize -o a x --keep-values 1": "unknown option --keep-values",
    "anonymize -o a x --api 1": "unknown option --api",
    "anonymize -o a x --keylog 1": "unknown option --keylog",
    "batch x": "the following arguments are required: --out",
    "batch --out a": "the following arguments are required: CAPTURE",
    "batch x --out a --buckets 0": "argument --buckets: not a number from 1 to 65536: '0'",
    "batch x --out a --buckets many": "argument --buckets: not a number from 1 to 65536: 'many'",
    **{
        f"batch x --out a --settle {text}": "not a number of seconds"
        for text in ("-1", "nan", "inf", "x")
    },
    "batch x --out a --split-size x": "argument --split-size: ",
    "batch x --out a --conf spark.driver.memory": "not KEY=VALUE: 'spark.driver.memory'",
    "batch x --out a --conf =4g": "not KEY=VALUE: '=4g'",
}
"""Words that the parser refuses, below the usage of the command."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What stands for names in the words of commands."""
    queries = tmp_path_factory.mktemp("queries")
    (queries / "wrong.sql").write_text(WRONG_SQL)
    truth = f"{ROOT}/captures/basics.truth.json"
    return {**CAPTURES, "reports": REPORTS, "queries": str(queries), "truth": truth}


@pytest.mark.parametrize("words", REFUSED)
def test_a_command_is_refused_in_one_line(
    words: str,
    places: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(words.format(**places))) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kanalyze: ")
    assert REFUSED[words] in captured.err
    assert captured.err.count("\n") == 1
    assert "\x1b" not in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", MISUSED)
def test_the_parser_refuses_words_below_the_usage(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words.split())
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"usage: kanalyze {words.split()[0]} ")
    assert MISUSED[words] in captured.err
