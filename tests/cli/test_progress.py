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

WIPE = "\r\x1b[K"
OVER = "kanalyze: over\n"


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
        tty.setraw(slave)  # a line feed stays one
        self.file = os.fdopen(slave, "w")

    def resize(self, width: int) -> None:
        termios.tcsetwinsize(self.file.fileno(), (24, width))

    def text(self) -> str:
        """Return what was written since the last call."""
        self.file.flush()
        found = b""
        while select.select([self._master], [], [], 0)[0]:
            found += os.read(self._master, 65536)
        return found.decode()

    def hang_up(self) -> None:
        if self._master >= 0:
            os.close(self._master)
        self._master = -1


@pytest.fixture
def screen(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    made = Screen()
    made.resize(80)
    yield made
    made.hang_up()
    with suppress(OSError):  # what could not be written
        made.file.close()


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


def shown(clock: FastClock, screen: Screen | None = None, total: int | None = 100_000_000) -> None:
    with reading(clock, screen, total):
        pass


# -- on a terminal ---------------------------------------------------------------------------------


def test_quick_work_draws_nothing(screen):
    shown(FastClock(until_s=0.8), screen)
    assert screen.text() == OVER


def test_long_work_has_one_line_that_is_wiped_out(screen):
    with reading(FastClock(until_s=1.4), screen):
        assert screen.text().split(WIPE) == [
            "",
            "kanalyze: reading  [..........]  2 %  2 MB of 100 MB  2 MB/s  49 s left",
            "kanalyze: reading  [..........]  2 %  2.40 MB of 100 MB  2 MB/s  49 s left",
            "kanalyze: reading  [..........]  2 %  2.80 MB of 100 MB  2 MB/s  49 s left",
        ]
    assert screen.text() == WIPE + OVER


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_the_line_never_wraps(screen, width):
    screen.resize(width)
    shown(FastClock(until_s=30), screen)
    lines = screen.text().split(WIPE)
    assert len(lines) > 100
    assert max(map(len, lines)) < width


def test_the_line_is_plain_text(screen):
    """Without colours, as NO_COLOR asks, and in ASCII."""
    shown(FastClock(until_s=30), screen)
    text = screen.text().replace(WIPE, "")
    assert text.isascii()
    assert "\x1b" not in text
    assert "reading" in text


def test_of_a_pipe_the_share_and_the_time_left_are_unknown(screen):
    shown(FastClock(until_s=1), screen, total=None)
    assert screen.text() == f"{WIPE}kanalyze: reading  2 MB  2 MB/s  for 1 s{WIPE}{OVER}"


def test_messages_take_the_place_of_the_line(screen):
    with reading(FastClock(until_s=1), screen):
        screen.text()
        print_message("left out: x.pcap")
        assert screen.text() == f"{WIPE}kanalyze: left out: x.pcap\n"
    assert screen.text() == OVER


def test_an_error_finds_the_line_empty(screen):
    before = set(threading.enumerate())
    with pytest.raises(UsageError), reading(FastClock(until_s=2), screen):
        raise UsageError("no good")
    assert screen.text().endswith(WIPE)
    assert set(threading.enumerate()) <= before


def test_a_forked_worker_does_not_wait_for_the_line(screen, monkeypatch):
    clock = FastClock(until_s=1)
    with reading(clock, screen):
        messages = sys.stderr
        screen.text()
        with messages._line.lock:  # as the fork may have found it
            monkeypatch.setattr(os, "getpid", lambda: 0)
            worker = threading.Thread(target=messages.write, args=("worker\n",), daemon=True)
            worker.start()
            worker.join(LONG_S)
            assert not worker.is_alive()
        assert screen.text() == "worker\n"


def test_in_the_background_nothing_is_drawn(screen, monkeypatch):
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + 1)
    shown(FastClock(until_s=30), screen)
    assert screen.text() == OVER


def test_work_continues_after_the_terminal_was_closed(screen):
    clock = FastClock(until_s=30, at=lambda seconds: screen.hang_up() if seconds == 5 else None)
    shown(clock, screen)
    assert clock.seconds() == 30


def test_a_terminal_that_cannot_wipe_gets_lines(screen, monkeypatch):
    for term in ("dumb", ""):
        monkeypatch.setenv("TERM", term)
        shown(FastClock(until_s=10), screen)
        assert screen.text() == (
            "kanalyze: reading: 20 %, 20 MB of 100 MB, 2 MB/s, 40 s left\n" + OVER
        )


# -- elsewhere -------------------------------------------------------------------------------------


def test_a_log_has_a_line_every_ten_seconds(capsys):
    shown(FastClock(until_s=29))
    assert capsys.readouterr().err.splitlines() == [
        "kanalyze: reading: 20 %, 20 MB of 100 MB, 2 MB/s, 40 s left",
        "kanalyze: reading: 40 %, 40 MB of 100 MB, 2 MB/s, 30 s left",
    ]


def test_a_log_has_no_line_of_quick_work(capsys):
    shown(FastClock(until_s=9))
    assert capsys.readouterr().err == ""


# -- where progress would get between ------------------------------------------------------------


def arguments(*options: str):
    return parser().parse_args(["requests", *options, "x.pcap"])


@pytest.fixture
def outputs(monkeypatch, tmp_path):
    """Let standard output and standard error be a terminal, a pipe or a file."""
    opened = []

    def kind_of(name: str) -> int:
        if name == "terminal":
            return pty.openpty()[1]
        if name == "pipe":
            return os.pipe()[1]
        return os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT)

    def use(output: str, errors: str) -> None:
        descriptor = kind_of(output)
        for name, number in (
            ("stdout", descriptor),
            ("stderr", os.dup(descriptor) if errors == output else kind_of(errors)),
        ):
            opened.append(os.fdopen(number, "w"))
            monkeypatch.setattr(sys, name, opened[-1])

    yield use
    for each in opened:
        each.close()


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
def test_progress_never_gets_between_the_output(
    outputs, output, errors, streamed, at_end, to_a_file
):
    outputs(output, errors)
    found = arguments()
    assert progress_of(found, "-", is_streamed=True).is_wanted == streamed
    assert progress_of(found, "-").is_wanted == at_end
    assert progress_of(found, "x.csv", is_streamed=True).is_wanted == to_a_file
    assert progress_of(found).is_wanted == to_a_file


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
    found: list[str] = []
    is_shown = threading.Event()
    count, begin, show = Progress.count, Progress.begin, Progress.shown

    def noted(kept):
        def note(self, phase, *more):
            if is_shown.is_set():
                found.append(phase)
            kept(self, phase, *more)

        return note

    @contextmanager
    def shown_while(self):
        with show(self):
            is_shown.set()
            yield
            is_shown.clear()

    monkeypatch.setattr(Progress, "count", noted(count))
    monkeypatch.setattr(Progress, "begin", noted(begin))
    monkeypatch.setattr(Progress, "shown", shown_while)
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "wanted"),
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
        (["anonymize", "-o", "{}/a.pcapng"], ["reading and writing"]),
    ],
    ids=lambda each: " ".join(each[:2]),
)
def test_every_command_that_may_take_long_says_where_it_is(words, wanted, phases, tmp_path):
    assert main([*(word.format(tmp_path) for word in words), str(path("basics"))]) == 0
    assert phases == wanted


@pytest.mark.long
def test_a_command_on_a_terminal_shows_a_line_until_its_pipe_ends(tmp_path):
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
        assert terminal.output.endswith(WIPE.encode())
        assert re.search(rb"reading  [\d.]+ kB  ", terminal.output)
