"""``kanalyze live``: arguments, pipes, signals, files. Other files test interfaces and keys."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

import kanalyze
from kanalyze.cli.main import main
from tests.support.captures import often, path
from tests.support.compare import nameless
from tests.support.few_findings import WITH_FEW_FINDINGS
from tests.support.scraping import count_read, served_at
from tests.support.waiting import LONG_S, next_line, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "from kanalyze.cli.main import run; run()"
KANALYZE = [sys.executable, "-c", WITH_FEW_FINDINGS + COMMAND]


class Live:
    """The running command; its standard input stays open until the test closes it."""

    def __init__(self, *argv: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [*KANALYZE, "live", *argv],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        self.input = self._process.stdin
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._take_lines)
        self._thread.start()

    def give(self, data: bytes) -> None:
        self.input.write(data)
        self.input.flush()

    def line(self) -> bytes:
        """Return the next line of its standard output."""
        return self._lines.get(timeout=LONG_S)

    def error_line(self) -> str:
        """Return the next line of its standard error."""
        assert self._process.stderr is not None
        return next_line(self._process.stderr).decode()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, list[bytes], str]:
        """Wait for its end; return its status, the remaining lines, and its standard error."""
        status = self._process.wait(LONG_S)
        self._thread.join(LONG_S)
        assert self._process.stderr is not None
        lines = []
        with contextlib.suppress(queue.Empty):
            while True:
                lines.append(self._lines.get_nowait())
        return status, lines, self._process.stderr.read().decode()

    def close(self) -> None:
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self.input.close()
        self._process.wait()
        self._thread.join()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def _take_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)


@contextlib.contextmanager
def started(*argv: str, **environment: str) -> Iterator[Live]:
    live = Live(*argv, **environment)
    try:
        yield live
    finally:
        live.close()


@functools.cache
def rows_of(name: str, *filters: str) -> list[dict[str, object]]:
    """Return the rows of `kanalyze requests`, without the capture's name, sorted."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.jsonl")
        assert main(["requests", "-o", str(rows), *filters, str(path(name))]) == 0
        return in_order(rows.read_bytes().splitlines())


def in_order(lines: list[bytes]) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in lines]
    for row in rows:
        del row["capture"]
    return sorted(rows, key=repr)


def report_in(report: Path) -> dict[str, Any]:
    contents = json.loads(report.read_bytes())
    assert contents.pop("kanalyze_version") == kanalyze.__version__
    return nameless(contents)


def wait_until_read(live: Live, data: bytes, folder: Path) -> None:
    """Wait until the metrics count all packets of the first part of a capture."""
    url = served_at(live.error_line())
    assert url is not None
    (folder / "given").write_bytes(data)
    beginning = kanalyze.requests(folder / "given")
    for _ in beginning:
        pass  # its quality is known at the end
    assert beginning.quality is not None
    count = beginning.quality.packets
    wait_until(lambda: count_read(url) == count, f"{count} packets read")


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["-", "-i", "eth0"],
        ["--list", "-i", "eth0"],
        ["captures/basics.pcap"],
        ["-", "--port", "0"],
        ["-", "--port", "65536"],
        ["-", "--port", "http"],
        ["-", "--port", "9" * 5000],
        ["-", "--buffer", "much"],
        ["-", "--duration", "-1"],
        ["-", "--duration", "nan"],
        ["-", "--interval", "x"],
        ["-", "--interval", "1e300"],
        ["-", "--format", "xml"],
        ["-", "--write", "rows", "--write-files", "0"],
    ],
)
def test_arguments_that_cannot_be_parsed_end_with_status_2(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["live", *argv])
    assert caught.value.code == 2
    assert "usage: kanalyze live" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-", "--filter", "porte 9092"], "filter 'porte 9092': "),
        (["-", "--filter", "tcp) or (udp", "--port", "1"], "filter 'tcp) or (udp': "),
        (["-", "--filter", "port 1\n22"], "filter 'port 1\\n22': "),
        (["-", "--host", "broker"], "not an address or a network: 'broker'"),
        (["-", "--api", "Fetsch"], "unknown API: 'Fetsch'; did you mean Fetch"),
        (["-", "--filter", "\udcff"], "filter '\\udcff': is not UTF-8"),
        (["-i", "lo", "--filter", "\udcff"], "filter '\\udcff': is not UTF-8"),
        (["-", "--save", "{folder}/x.pcapng", "--save-slower-than", "slow"], "slow"),
        (["-", "--format", "view"], "there is no terminal to draw on"),
        (["-", "--json", "-"], "--json - and --format jsonl would both use standard output"),
        (["-", "--json", "-", "--format", "rows"], "--format rows would both"),
        (["-", "--interval", "0"], "--interval: use more than 0 seconds"),
        (["-", "--metrics", "localhost"], "not an address to listen on: 'localhost'"),
        (["-", "--metrics", "::1:9308"], "(IPv6 as [ADDRESS]:PORT)"),
        (["-", "--topic-ids", "no/such/file"], "no/such/file"),
        (["-", "--json", "{folder}/x", "--queries", "no/such/folder"], "no/such/folder"),
        (["-", "--json", "{folder}/x", "--threshold", "x.y=1"], "unknown threshold: 'x.y'"),
        (["-", "--definitions", "no/such/folder"], "no/such/folder"),
        (["-", "--json", "no/such/folder/x.json"], "no/such/folder"),
        (["-i", "no-such-one"], "no-such-one: no such interface (there are: "),
        (["-i", "no such\x1b"], "no such\\x1b: no such interface"),
        (["-i", "a-name-that-is-long"], "is not the name of an interface"),
        (["-i", "lo", "--filter", "porte 22"], "filter 'porte 22': "),
        (["-i", "lo", "--filter", "tcp) or (udp"], "filter 'tcp) or (udp': "),
        (["-i", "lo", "--host", "nobody"], "nobody"),
        (["-i", "lo", "--buffer", "0"], "--buffer: use more than 0 and at most 4G"),
        (["-i", "lo", "--buffer", "1T"], "--buffer: use more than 0 and at most 4G"),
        (
            ["-", "--format", "rows", "--interval", "5"],
            "--interval needs --format jsonl; the format is",
        ),
        (["-", "--write-every", "0.5"], "--write-every: use at least 1 second"),
        (["-", "--json", ""], "--json: not the name of a file: ''"),
        (["-", "--save", ""], "--save: not the name of a file: ''"),
        (["-", "--save", "-"], "--save: not the name of a file: '-'"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line_before_files_are_created(
    argv, message, capsys, tmp_path
):
    words = [word.format(folder=tmp_path) for word in argv]
    # Other options, which would create files.
    more = ["--write", str(tmp_path / "rows")]
    assert main(["live", *words, *more]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kanalyze: ")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--write-every", "60"], "--write-every needs --write, which writes rows"),
        (["--write-size", "1M"], "--write-size needs --write,"),
        (["--write-files", "3"], "--write-files needs --write,"),
        (["--metrics-host", "a"], "--metrics-host needs --metrics, which serves metrics"),
        (["--write", ""], "--write: not the name of a folder: ''"),
        (["--write", "-"], "--write: not the name of a folder: '-'"),
        (["--save-errors"], "--save-errors needs --save, which writes packets"),
        (["--save-slower-than", "1s"], "--save-slower-than needs --save,"),
        (["--save-size", "1M"], "--save-size needs --save,"),
        (["--save-files", "3"], "--save-files needs --save,"),
        (["--queries", ".", "--format", "rows"], "--queries: --format rows shows no findings"),
        (["--threshold", "a.b=2", "--format", "rows"], "--threshold: --format rows shows no"),
    ],
)
def test_options_without_effect_are_refused(argv, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["live", "-", *argv]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_a_capture_file_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["live", "broker.pcap"])
    assert "not -: 'broker.pcap' (live reads only standard input" in capsys.readouterr().err


def test_an_empty_filter_selects_everything(run_live):
    done = run_live("-", "--format", "rows", "--filter", " ", data=path("groups").read_bytes())
    assert (done.returncode, done.stderr) == (0, b"")
    assert in_order(done.stdout.splitlines()) == rows_of("groups")


def test_a_closed_standard_input_is_reported():
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *KANALYZE, "live", "-"],
        capture_output=True,
        timeout=LONG_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        2,
        b"kanalyze: standard input is closed: pipe a capture into kanalyze live -\n",
    )


def test_without_prometheus_client_the_message_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("kanalyze.cli.live_sinks.find_spec", lambda name: None)
    assert main(["live", "-", "--metrics", "0"]) == 2
    assert capsys.readouterr().err == (
        "kanalyze: --metrics needs prometheus_client: pip install 'kanalyze[live]'\n"
    )


# -- pipes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", often(["basics", "errors", "ipv6"], ["ipv6"]))
def test_a_pipe_gives_the_rows_of_the_file(name, tmp_path, run_live):
    report = tmp_path / "report.json"
    argv = ["-", "--format", "rows", "--json", str(report)]
    done = run_live(*argv, data=path(name).read_bytes())
    assert (done.returncode, done.stderr) == (0, b"")
    assert in_order(done.stdout.splitlines()) == rows_of(name)
    expected = nameless(kanalyze.report(path(name)))
    assert expected.items() <= report_in(report).items()


USER_FINDING = """-- Of a user.
-- severity: 99
-- sure: certain.
-- why: so.
-- repair: none.
-- parameter least = 1: requests, at least
SELECT concat(count(*), ' requests') AS what, count(*) AS weight
FROM requests
HAVING count(*) >= $least
"""


def test_findings_are_those_of_the_report_with_the_same_options(all_findings, tmp_path, run_live):
    """Findings from groups and metadata are among them. A failing query is only reported."""
    (tmp_path / "mine.sql").write_text(USER_FINDING)
    options = ("--queries", str(tmp_path), "--threshold", "mine.least=2")
    options += ("--threshold", "rebalances.least_rounds=1")
    of_live, of_report = tmp_path / "live.json", tmp_path / "report.json"
    capture = path("groups")
    assert main(["report", str(capture), "--json", str(of_report), *options]) == 0
    (tmp_path / "worse.sql").write_text(USER_FINDING.replace("FROM requests", "FROM no_such_table"))
    done = run_live("-", "--json", str(of_live), *options, data=capture.read_bytes())
    assert done.returncode == 0
    err = done.stderr.decode()
    assert err.count("\n") == 1
    assert err.startswith("kanalyze: finding 'worse' is left out: ")
    findings = [json.loads(file.read_bytes())["findings"] for file in (of_live, of_report)]
    files = [{finding.pop("first_capture") for finding in each} - {None} for each in findings]
    assert files == [{"-"}, {str(capture)}]
    assert findings[0] == findings[1]
    assert {"mine", "rebalances"} <= {finding["name"] for finding in findings[0]}


def test_the_report_says_that_a_capture_is_cut(tmp_path, run_live):
    data = path("basics").read_bytes()[:-5]
    cut, report = tmp_path / "cut.pcap", tmp_path / "report.json"
    cut.write_bytes(data)
    done = run_live("-", "--json", str(report), data=data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "capture_truncated" in repr(report_in(report)["quality"])
    expected = nameless(kanalyze.report(cut))
    assert expected.items() <= report_in(report).items()


def test_the_interface_may_be_standard_input(run_live):
    """As tshark and tcpdump take it."""
    data = path("basics").read_bytes()
    assert run_live("-i", "-", "--format", "rows", data=data) == run_live(
        "-", "--format", "rows", data=data
    )


def test_the_last_line_of_rates_counts_all_rows(run_live):
    done = run_live("-", data=path("basics").read_bytes())
    assert (done.returncode, done.stderr) == (0, b"")
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["kind"] == "rates"
    assert last["rows"] == len(list(kanalyze.requests(path("basics"))))
    assert last["capture"]["packets"] == 1722


def test_a_capture_that_comes_slowly_is_read_correctly():
    """Each piece comes after a read of the pipe has timed out."""
    data = path("basics").read_bytes()
    with started("-", "--format", "rows") as live:
        for first in range(0, len(data), len(data) // 4):
            live.give(data[first : first + len(data) // 4])
            time.sleep(0.27)
        live.input.close()
        status, lines, err = live.end()
    assert (status, err) == (0, "")
    assert in_order(lines) == rows_of("basics")


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", b"-: is empty"), (b"tcpdump: no such device\n", b"-: is not a pcap or pcapng file")],
)
def test_input_that_is_no_capture_is_reported_in_one_line(data, message, tmp_path, run_live):
    report, saved, rows = tmp_path / "x.json", tmp_path / "x.pcapng", tmp_path / "rows"
    argv = ("--json", str(report), "--save", str(saved), "--write", str(rows))
    done = run_live("-", "--format", "rows", *argv, data=data)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"kanalyze: " + message)
    assert done.stderr.count(b"\n") == 1
    assert not report.exists()
    assert list(rows.iterdir()) == []


def test_a_closed_output_pipe_ends_the_run(tmp_path):
    rows = tmp_path / "rows"
    command = [*KANALYZE, "live", "-", "--format", "rows", "--write", str(rows)]
    with (
        path("basics").open("rb") as file,
        subprocess.Popen(
            command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(LONG_S) == 0
        assert process.stderr.read() == b""
    assert list(rows.glob(".*")) == []


# -- files ----------------------------------------------------------------------------------------


def parquet_rows(folder: Path) -> list[dict[str, object]]:
    files = sorted(folder.iterdir())
    assert all(file.suffix == ".parquet" for file in files)
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=repr)


def test_saved_packets_have_no_password(tmp_path, run_live):
    saved, data = tmp_path / "saved.pcapng", path("sasl").read_bytes()
    done = run_live("-", "--save", str(saved), "--save-errors", data=data)
    assert done.returncode == 0, done.stderr
    failed = [row for row in kanalyze.requests(saved) if row.api_name == "SaslAuthenticate"]
    assert any(row.error_code == 58 for row in failed)
    for secret in (b"\0alice\0", b",p=", b",i=4096"):
        assert secret in data
        assert secret not in saved.read_bytes()


def test_metrics_are_served_during_the_run():
    data = path("basics").read_bytes()
    with started("-", "--metrics", "0") as live:
        line = live.error_line()
        assert re.fullmatch(r"kanalyze: metrics: http://127\.0\.0\.1:\d+/metrics\n", line)
        url = line.split()[-1]

        def samples() -> dict[str, float]:
            with urllib.request.urlopen(url, timeout=LONG_S) as answer:
                text = answer.read().decode()
            sums: dict[str, float] = {}
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    sums[sample.name] = sums.get(sample.name, 0) + sample.value
            return sums

        live.give(data)
        wait_until(lambda: samples().get("kanalyze_capture_packets_total") == 1722)
        # Unanswered requests of open connections have no rows yet.
        answered = [row for row in kanalyze.requests(path("basics")) if row.latency_ns is not None]
        wait_until(lambda: samples().get("kanalyze_requests_total", 0) >= len(answered))
        live.input.close()
        status, _, err = live.end()
    assert (status, err) == (0, "")


# -- signals --------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("number", "unbuffered"),
    [
        (signal.SIGINT, ""),
        pytest.param(signal.SIGTERM, "", marks=pytest.mark.long),
        (signal.SIGTERM, "1"),
    ],
)
def test_all_outputs_are_complete_after_a_signal(number, unbuffered, tmp_path):
    """The file that is being written when the signal comes is complete too."""
    report, saved, rows = tmp_path / "x.json", tmp_path / "x.pcapng", tmp_path / "rows"
    argv = ("--json", str(report), "--save", str(saved), "--write", str(rows), "--metrics", "0")
    with started("-", "--format", "rows", *argv, PYTHONUNBUFFERED=unbuffered) as live:
        data = path("errors").read_bytes()
        live.give(data)
        wait_until_read(live, data, tmp_path)
        live.send(number)
        status, lines, err = live.end()
    assert (status, err) == (0, "")
    written = in_order(lines)
    assert len(parquet_rows(rows)) == len(written)
    assert written == rows_of("errors")
    totals = json.loads(report.read_bytes())["totals"]
    assert totals["requests"] == len(written)
    errors = [row for row in written if row["status"] == "error"]
    assert len(list(kanalyze.requests(saved, errors=True))) == len(errors) > 0


def test_a_hangup_begins_new_files(tmp_path):
    rows, saved = tmp_path / "rows", tmp_path / "x.pcapng"
    data = path("errors").read_bytes()
    half = len(data) // 2
    argv = ("--save", str(saved), "--write", str(rows), "--metrics", "0")
    with started("-", "--format", "rows", *argv) as live:
        live.give(data[:half])
        wait_until_read(live, data[:half], tmp_path)
        live.send(signal.SIGHUP)
        wait_until(lambda: list(rows.glob("kanalyze-*.parquet")))
        live.give(data[half:])
        live.input.close()
        status, _, err = live.end()
    assert (status, err) == (0, "")
    assert len(list(rows.iterdir())) == 2
    assert len(parquet_rows(rows)) == len(rows_of("errors"))
    files = sorted(tmp_path.glob("*.pcapng"))
    assert len(files) == 2
    failed = kanalyze.requests(*files, errors=True)
    assert len(list(failed)) == len(rows_of("errors", "--errors"))


def test_the_run_ends_after_its_duration():
    with started("-", "--duration", "0.5", "--interval", "0.2") as live:
        status, lines, err = live.end()
    assert (status, err) == (0, "")
    assert 1 <= len(lines) <= 6
    assert {json.loads(line)["rows"] for line in lines} == {0}
