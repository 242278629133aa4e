"""SIGINT and SIGTERM at any moment: exit status 130 or 143, no message, nothing left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kanalyze.common import unfinished
from kanalyze.export.files import OutputFile
from tests.support.captures import path
from tests.support.few_findings import WITH_FEW_FINDINGS
from tests.support.packets import pcap_file
from tests.support.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
BEGIN = f"""
{WITH_FEW_FINDINGS}
import os, sys
from kanalyze.cli import main
set_up = main._set_up_process

def begin():
    os.write(int(sys.argv.pop(1)), b"begun")
    set_up()

main._set_up_process = begin
main.run()
"""
"""Says when the handlers are set: Python's own start has no handler of ours."""
COMMANDS = {
    "report": "report --json {out}/a.json --html {out}/a.html -o {out}/a.md {capture}",
    "save": "save -o {out}/a.duckdb {capture}",
    "requests parquet": "requests -o {out}/a.parquet {capture}",
    "requests": "requests {capture}",
    "connections": "connections -o {out}/a.csv {capture}",
    "anomalies": "anomalies -o {out}/a.jsonl {capture}",
    "records": "records -o {out}/a.csv {capture}",
    "decode": "decode -o {out}/a.jsonl {capture}",
    "sql": "sql -o {out}/a.csv {capture} SELECT\u00a0*\u00a0FROM\u00a0requests",
    "compare": "compare --json {out}/a.json {capture} {capture}",
    "extract": "extract -o {out}/a.pcapng {capture}",
    "anonymize": "anonymize -o {out}/a.pcapng {capture}",
    "protocol": "protocol --json",
    "workers": "requests --no-progress --jobs 2 -o {out}/a.csv {large}",
    "workers and tables": "report --no-progress --jobs 2 --json {out}/a.json {large}",
}
ENDLESS = {
    "long query": "sql {capture} "
    "SELECT\u00a0sum(a.range)\u00a0FROM\u00a0range(9000000)a,range(9000000)b"
}


class Run:
    """A command in a process group of its own, with its folders."""

    def __init__(self, name: str, folder: Path, large: str = "") -> None:
        self.out, self.scratch = folder / "out", folder / "tmp"
        for each in (self.out, self.scratch):
            each.mkdir(parents=True, exist_ok=True)
        values = {"out": self.out, "capture": path("waits"), "large": large}
        words = [
            word.format(**values).replace("\u00a0", " ")
            for word in (COMMANDS | ENDLESS)[name].split(" ")
        ]
        begun, told = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEGIN, str(told), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.scratch)},
            pass_fds=[told],
            # A shell starts background jobs, such as these tests, with SIGINT ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
            start_new_session=True,
        )
        os.close(told)
        assert os.read(begun, 5) == b"begun"
        os.close(begun)
        self.begun_s = time.monotonic()

    def end(self) -> float:
        """Wait for the end; return the seconds since the handlers were set."""
        self.errors = self.process.communicate()[1].decode()
        return time.monotonic() - self.begun_s

    def check_interrupted(self, number: signal.Signals) -> None:
        """If the signal came before the end, nothing is left."""
        status = self.process.returncode
        assert self.errors == ""
        assert not list(self.scratch.iterdir())
        assert not [file for file in self.out.iterdir() if file.name.startswith(".")]
        assert status in (0, 128 + number)
        with pytest.raises(ProcessLookupError):  # no process of the group is left
            os.killpg(self.process.pid, 0)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> str:
    """A capture that is large enough for workers."""
    file = tmp_path_factory.mktemp("large") / "large.pcap"
    data = path("basics").read_bytes()
    records = data[len(pcap_file([])) :]
    with file.open("wb") as target:
        target.write(data[:24])
        for _ in range((20 << 20) // len(records)):
            target.write(records)
    return str(file)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_at_any_moment_ends_a_command_and_leaves_nothing(name, tmp_path, large, request):
    """The moments are spread over the time that the command takes."""
    is_long = "not long" not in request.config.option.markexpr
    whole = Run(name, tmp_path / "whole", large)
    seconds = whole.end()
    assert whole.process.returncode == 0
    moments = 40 if is_long else 3
    dice = random.Random(name)
    interrupted = 0
    for moment in range(moments):
        number = dice.choice([signal.SIGINT, signal.SIGTERM])
        run = Run(name, tmp_path / str(moment), large)
        time.sleep(seconds * (moment + dice.random()) / moments * 0.9)
        run.process.send_signal(number)
        run.end()
        run.check_interrupted(number)
        interrupted += run.process.returncode != 0
    assert interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_query_runs_ends_it(number, tmp_path):
    """DuckDB makes an error of its own of an exception that a handler raises."""
    run = Run("long query", tmp_path)
    wait_until(lambda: list(run.scratch.iterdir()), "the folder of the tables")
    time.sleep(1)
    run.process.send_signal(number)
    run.end()
    run.check_interrupted(number)
    assert run.process.returncode == 128 + number


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    """As for a job that a shell started in the background."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from kanalyze.cli import interruption; interruption.end_at_signals()\n"
        "import os; os.kill(os.getpid(), signal.SIGINT); print('goes on')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert done.stdout == b"goes on\n"


def test_what_is_begun_is_removed_and_what_is_complete_stays(tmp_path):
    for name in ("done.csv", "failed.csv", "open.csv"):
        output = OutputFile(str(tmp_path / name))
        output.file.write(b"x")
        if name == "done.csv":
            output.close()
        elif name == "failed.csv":
            output.abort()
    folder = tmp_path / "folder"
    unfinished.begin(folder)
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").touch()
    unfinished.remove_all()
    output.file.close()
    assert [file.name for file in tmp_path.iterdir()] == ["done.csv"]
