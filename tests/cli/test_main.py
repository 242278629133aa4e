from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.errors import CaptureError
from tests.support.captures import often
from tests.support.few_findings import WITH_FEW_FINDINGS

ROOT = Path(__file__).parent.parent.parent
RUN = [sys.executable, "-c", "from kanalyze.cli.main import run; run()"]


def test_the_version_names_python_and_the_machine(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    python = f"CPython {'.'.join(map(str, sys.version_info[:3]))}"
    text = capsys.readouterr().out
    assert text.startswith(f"kanalyze {kanalyze.__version__} (compiled), {python}")
    assert os.uname().machine in text
    assert text.count("\n") == 1


def test_the_package_can_be_run_as_a_module():
    run = [sys.executable, "-m", "kanalyze", "--version"]
    done = subprocess.run(run, capture_output=True, check=True, cwd=ROOT)
    assert done.stdout.startswith(b"kanalyze ")


def shell(command: str, batches: int = 20, **settings) -> subprocess.CompletedProcess[bytes]:
    """Run a command with a small fake pipeline in place of the real one.

    ``batches``: how many batches of 500 rows there are; 20 are more than a pipe holds.
    """
    code = (
        "import sys\n"
        "from kanalyze.cli import analyze\n"
        "from kanalyze.tables.columns.block import RowBlock\n"
        "from kanalyze.runtime.table_rows import TableRows\n"
        "from kanalyze.tables.quality import CaptureQuality\n"
        "from tests.support.rows import plain_traffic, without_sessions\n"
        "class Fake:\n"
        "    progress = 0, None\n"
        "    has_several_captures = False\n"
        "    has_workers = False\n"
        "    def __init__(self, captures, row_filter, **_):\n"
        "        self.quality, self.row_filter = CaptureQuality(list(captures)), row_filter\n"
        "    def start(self): pass\n"
        "    def close(self): pass\n"
        "    def batches(self):\n"
        f"        for _ in range({batches}): yield RowBlock.of_rows(plain_traffic(500))\n"
        "    def table_rows(self, tables, **others):\n"
        "        for block in self.batches(): yield TableRows([without_sessions(block)], [], [])\n"
        "analyze.Analysis = Fake\n"
        f"{WITH_FEW_FINDINGS}"
        "from kanalyze.cli.main import run\n"
        "run()\n"
    )
    return subprocess.run(
        ["sh", "-c", command, sys.executable, code],
        capture_output=True,
        check=False,
        cwd=ROOT,
        **settings,
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("row_format", ["table", "csv", "jsonl"])
def test_a_closed_output_pipe_is_no_error(row_format):
    command = (
        f'{{ "$0" -c "$1" requests --format {row_format} x; echo "exit $?" >&2; }} | head -n 1'
    )
    done = shell(command)
    assert done.stderr == b"exit 0\n"
    assert done.stdout.count(b"\n") == 1


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "command",
    often(
        ["report", "report --json -", "requests --format csv"], ["report", "requests --format csv"]
    ),
)
def test_a_full_disk_for_standard_output_is_reported_in_one_line(command):
    done = shell(f'"$0" -c "$1" {command} x > /dev/full', batches=1)
    assert done.stderr == b"kanalyze: standard output: No space left on device\n"
    assert done.returncode == 2


@pytest.mark.parametrize("words", ["--version", "--help", "requests --help"])
def test_a_full_disk_for_help_is_reported_too(words):
    """Also for one that fits the buffer of the stream, and for one that does not."""
    command = ["sh", "-c", f'"$0" -m kanalyze {words} > /dev/full', sys.executable]
    done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
    assert done.stderr == b"kanalyze: standard output: No space left on device\n"
    assert done.returncode == 2


def test_closed_standard_streams_are_no_error():
    assert shell('"$0" -c "$1" report x >&- 2>&-', batches=1).returncode == 0


def test_a_report_can_be_printed_in_ascii():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}
    done = shell('"$0" -c "$1" report x', batches=1, env=environment)
    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout.isascii()
    assert b"u2192" not in done.stdout


def test_characters_that_the_encoding_lacks_are_replaced(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["protocol", "errors"]) == 0
    stream.write("\u2502\u2581\u2588 1 \u2192 2 \u00b5s a\u2026 \u2193 \u2265 \u00fc")
    stream.flush()
    assert stream.buffer.getvalue().endswith(rb"|_# 1 > 2 us a~ v \u2265 \xfc")


def test_the_entry_point_ends_the_process_with_the_status():
    done = subprocess.run(
        [*RUN, "report", "--port", "0", "x"], capture_output=True, check=False, cwd=ROOT
    )
    assert done.returncode == 2
    assert b"not a TCP port: '0'" in done.stderr


@pytest.mark.parametrize(
    ("variables", "expected"), [({}, b"1"), ({"OPENBLAS_NUM_THREADS": "2"}, b"2")]
)
def test_openblas_has_one_thread_unless_the_variable_is_set(variables, expected):
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"} | variables
    code = (
        "import atexit, os\n"
        "atexit.register(lambda: os.write(2, os.environb[b'OPENBLAS_NUM_THREADS']))\n"
        "from kanalyze.cli.main import run; run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "protocol"],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=environment,
    )
    assert done.stderr == expected


@pytest.mark.parametrize(
    "command",
    [
        "report --json /dev/full",
        "requests -o /dev/full --format csv",
        "requests -o /dev/full --format jsonl",
        "requests -o /dev/full --format parquet",
        "requests -o /dev/full --format table",
    ],
)
def test_the_message_about_a_full_disk_names_the_file(command, fake, capsys):
    assert main([*command.split(), "x"]) == 2
    assert capsys.readouterr().err == "kanalyze: /dev/full: No space left on device\n"


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (CaptureError("a\nb\x1b[2J: no such file"), 2, "kanalyze: a\\nb\\x1b[2J: no such file\n"),
        (
            MemoryError(),
            2,
            "kanalyze: out of memory: use a smaller --max-memory, or --jobs 1\n",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        ["report", "-o", "{}/a.md", "--json", "{}/a.json"],
        *(["requests", "-o", f"{{}}/rows.{name}"] for name in ("csv", "jsonl", "parquet", "txt")),
    ],
    ids=lambda words: words[-1],
)
def test_a_command_that_fails_leaves_no_file(fake, capsys, tmp_path, words, error, status, message):
    fake.error = error
    assert main([*(word.format(tmp_path) for word in words), "x"]) == status
    assert capsys.readouterr().err == message
    assert list(tmp_path.iterdir()) == []


def test_unexpected_exceptions_are_raised(fake):
    fake.error = RuntimeError("a bug")
    with pytest.raises(RuntimeError):
        main(["report", "x.pcap"])
