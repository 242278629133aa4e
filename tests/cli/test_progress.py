from __future__ import annotations

import os
import pty
import re
import select
import sys
import termios
import threading
import tty
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress

import pytest

from kanalyze.cli.arguments import parser
from kanalyze.cli.console import print_message
from kanalyze.cli.main import main
from kanalyze.cli.progress import Progress, progress_of
from kanalyze.errors import UsageError
from tests.support.captures import path
from tests.support.clocks import FastClock
from tests.support.pseudo_terminal import PseudoTerminal
from tests.support.waiting import LONG_S

ERASE = "\r\x1b[K"
LAST_MESSAGE = "kanalyze: over\n"


class Source:
    """A fake source of which 2 MB are read in each virtual second."""

    def __init__(self, clock: FastClock, total: int | None = 100_000_000) -> None:
        self._clock = clock
        self._total = total

    @property
    def progress(self) -> tuple[int, int | None]:
        return int(self._clock.seconds() * 2_000_000), self._total


class Screen:
    """A pseudo-terminal that is standard error."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        tty.setraw(slave)  # keeps line feeds as they are
        self.file = os.fdopen(slave, "w")

    def resize(self, width: int) -> None:
        termios.tcsetwinsize(self.file.fileno(), (24, width))

    def text(self) -> str:
        """Return what was written since the last call."""
        self.file.flush()
        written = b""
        while select.select([self._master], [], [], 0)[0]:
            written += os.read(self._master, 65536)
        return written.decode()

    def hang_up(self) -> None:
        if self._master >= 0:
            os.close(self._master)
        self._master = -1


@pytest.fixture
def screen(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    screen.resize(80)
    yield screen
    screen.hang_up()
    with suppress(OSError):  # buffered text that cannot be written
        screen.file.close()


@contextmanager
def reading(clock: FastClock, screen: Screen | None = None, total: int | None = 100_000_000):
    """Show the progress of a source, on a screen if given, until the clock ends."""
    progress = Progress(clock=clock)
    with redirect_stderr(screen.file) if screen else nullcontext():
        with progress.reading(Source(clock, total)), progress.shown():
            clock.run()
            yield
        if screen:
            print_message("over")


def run_clock(
    clock: FastClock, screen: Screen | None = None, total: int | None = 100_000_000
) -> None:
    with reading(clock, screen, total):
        pass


# -- on a terminal ---------------------------------------------------------------------------------


def test_short_work_draws_nothing(screen):
    run_clock(FastClock(until_s=0.8), screen)
    assert screen.text() == LAST_MESSAGE


def test_the_line_is_erased_at_the_end(screen):
    with reading(FastClock(until_s=1.4), screen):
        assert screen.text().split(ERASE) == [
            "",
            "kanalyze: reading  [..........]  2 %  2 MB of 100 MB  2 MB/s  49 s left",
            "kanalyze: reading  [..........]  2 %  2.40 MB of 100 MB  2 MB/s  49 s left",
            "kanalyze: reading  [..........]  2 %  2.80 MB of 100 MB  2 MB/s  49 s left",
        ]
    assert screen.text() == ERASE + LAST_MESSAGE


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_the_line_never_wraps(screen, width):
    screen.resize(width)
    run_clock(FastClock(until_s=30), screen)
    lines = screen.text().split(ERASE)
    assert len(lines) > 100
    assert max(map(len, lines)) < width


def test_the_line_for_a_pipe_has_no_percentage_and_no_time_left(screen):
    run_clock(FastClock(until_s=1), screen, total=None)
    assert screen.text() == f"{ERASE}kanalyze: reading  2 MB  2 MB/s  for 1 s{ERASE}{LAST_MESSAGE}"


def test_messages_replace_the_line(screen):
    with reading(FastClock(until_s=1), screen):
        screen.text()
        print_message("left out: x.pcap")
        assert screen.text() == f"{ERASE}kanalyze: left out: x.pcap\n"
    assert screen.text() == LAST_MESSAGE


def test_the_line_is_erased_before_an_error(screen):
    before = set(threading.enumerate())
    with pytest.raises(UsageError), reading(FastClock(until_s=2), screen):
        raise UsageError("no good")
    assert screen.text().endswith(ERASE)
    assert set(threading.enumerate()) <= before


def test_a_forked_worker_does_not_wait_for_a_held_lock(screen, monkeypatch):
    clock = FastClock(until_s=1)
    with reading(clock, screen):
        stderr = sys.stderr
        screen.text()
        with stderr._line.lock:  # a fork may copy the lock while it is held
            monkeypatch.setattr(os, "getpid", lambda: 0)
            worker = threading.Thread(target=stderr.write, args=("worker\n",), daemon=True)
            worker.start()
            worker.join(LONG_S)
            assert not worker.is_alive()
        assert screen.text() == "worker\n"


def test_a_background_process_draws_nothing(screen, monkeypatch):
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + 1)
    run_clock(FastClock(until_s=30), screen)
    assert screen.text() == LAST_MESSAGE


def test_work_continues_after_the_terminal_was_closed(screen):
    clock = FastClock(until_s=30, at=lambda seconds: screen.hang_up() if seconds == 5 else None)
    run_clock(clock, screen)
    assert clock.seconds() == 30


def test_a_dumb_terminal_gets_lines(screen, monkeypatch):
    for term in ("dumb", ""):
        monkeypatch.setenv("TERM", term)
        run_clock(FastClock(until_s=10), screen)
        assert screen.text() == (
            "kanalyze: reading: 20 %, 20 MB of 100 MB, 2 MB/s, 40 s left\n" + LAST_MESSAGE
        )


# -- in a log --------------------------------------------------------------------------------------


def test_a_log_has_a_line_every_ten_seconds(capsys):
    run_clock(FastClock(until_s=29))
    assert capsys.readouterr().err.splitlines() == [
        "kanalyze: reading: 20 %, 20 MB of 100 MB, 2 MB/s, 40 s left",
        "kanalyze: reading: 40 %, 40 MB of 100 MB, 2 MB/s, 30 s left",
    ]


# -- beside the output ---------------------------------------------------------------------------


def arguments(*options: str):
    return parser().parse_args(["requests", *options, "x.pcap"])


@pytest.fixture
def outputs(monkeypatch, tmp_path):
    """Let standard output and standard error be a terminal, a pipe or a file."""
    opened = []

    def opened_as(name: str) -> int:
        if name == "terminal":
            return pty.openpty()[1]
        if name == "pipe":
            return os.pipe()[1]
        return os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT)

    def use(output: str, errors: str) -> None:
        descriptor = opened_as(output)
        for name, number in (
            ("stdout", descriptor),
            ("stderr", os.dup(descriptor) if errors == output else opened_as(errors)),
        ):
            opened.append(os.fdopen(number, "w"))
            monkeypatch.setattr(sys, name, opened[-1])

    yield use
    for stream in opened:
        stream.close()


@pytest.mark.parametrize(
    ("output", "errors", "streamed", "at_end", "to_a_file"),
    [
        ("terminal", "terminal", False, True, True),
        ("pipe", "terminal", False, True, True),
        ("a.csv", "terminal", True, True, True),
        ("terminal", "a.log", True, True, True),
        ("a.csv", "a.log", True, True, True),
        ("a.log", "a.log", False, False, True),
        ("pipe", "pipe", False, False, True),
    ],
)
def test_progress_is_not_shown_where_it_would_mix_with_the_output(
    outputs, output, errors, streamed, at_end, to_a_file
):
    outputs(output, errors)
    parsed = arguments()
    assert progress_of(parsed, "-", is_streamed=True).is_wanted == streamed
    assert progress_of(parsed, "-").is_wanted == at_end
    assert progress_of(parsed, "x.csv", is_streamed=True).is_wanted == to_a_file
    assert progress_of(parsed).is_wanted == to_a_file


def test_progress_can_be_turned_off(capsys):
    assert progress_of(arguments()).is_wanted
    assert not progress_of(arguments("--no-progress")).is_wanted
    clock = FastClock(until_s=30)
    with Progress(is_wanted=False, clock=clock).shown():
        pass
    assert clock.seconds() == 0


# -- every command ---------------------------------------------------------------------------------


@pytest.fixture
def phases(monkeypatch) -> list[str]:
    """The phases of the commands that run while progress is shown."""
    phases: list[str] = []
    is_shown = threading.Event()
    count, begin, show = Progress.count, Progress.begin, Progress.shown

    def recording(method):
        def record(self, phase, *more):
            if is_shown.is_set():
                phases.append(phase)
            method(self, phase, *more)

        return record

    @contextmanager
    def shown_while(self):
        with show(self):
            is_shown.set()
            yield
            is_shown.clear()

    monkeypatch.setattr(Progress, "count", recording(count))
    monkeypatch.setattr(Progress, "begin", recording(begin))
    monkeypatch.setattr(Progress, "shown", shown_while)
    return phases


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["requests", "-o", "{}/a.csv"], ["reading"]),
        (["requests", "--wireshark"], ["reading"]),
        (["records", "-o", "{}/a.csv"], ["reading"]),
        (["decode", "-o", "{}/a.jsonl"], ["reading"]),
        (["connections", "-o", "{}/a.csv"], ["reading"]),
        (["anomalies", "-o", "{}/a.csv"], ["reading"]),
        (["save", "-o", "{}/a.duckdb"], ["reading"]),
        (["report", "-o", "{}/a.txt"], ["reading", "summarizing"]),
        (["sql", "--query", "rebalances", "-o", "{}/a.csv"], ["reading", "querying"]),
        (["compare", str(path("basics"))], ["reading A", "comparing", "reading B", "comparing"]),
        (["extract", "-o", "{}/a.pcapng"], ["finding requests", "writing packets"]),
        (
            ["extract", "--finding", "unanswered", "-o", "{}/a.pcapng"],
            ["reading", "searching for findings", "finding requests"],
        ),
        (["anonymize", "-o", "{}/a.pcapng"], ["reading and writing", "comparing"]),
    ],
    ids=lambda items: " ".join(items[:2]),
)
def test_commands_report_their_phases(words, expected, phases, tmp_path):
    assert main([*(word.format(tmp_path) for word in words), str(path("basics"))]) == 0
    assert phases == expected


@pytest.mark.long
def test_a_command_shows_the_line_until_its_pipe_ends(tmp_path):
    """The command waits for the rest of a capture, which comes after the line was drawn."""
    data = path("basics").read_bytes()
    fifo = tmp_path / "packets"
    os.mkfifo(fifo)
    program = (
        "import sys; from kanalyze.cli import main, progress; "
        "progress._FIRST_LINE_S = 0; sys.exit(main.main(sys.argv[1:]))"
    )
    words = ("save", "-o", str(tmp_path / "a.duckdb"), str(fifo))
    with PseudoTerminal("-c", program, *words, width=60) as terminal, fifo.open("wb") as pipe:
        pipe.write(data[: len(data) // 2])
        pipe.flush()
        terminal.see("kanalyze: reading")
        pipe.write(data[len(data) // 2 :])
        pipe.close()
        assert terminal.end() == 0
        assert terminal.output.endswith(ERASE.encode())
        assert re.search(rb"reading  [\d.]+ kB  ", terminal.output)
