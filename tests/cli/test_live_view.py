"""``kanalyze live - --format view``: a capture comes in parts, and tests press keys."""

from __future__ import annotations

import json
import os
import re
import select
import signal
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from rich.cells import cell_len

from tests.support.captures import often, path
from tests.support.few_findings import WITH_FEW_FINDINGS
from tests.support.pseudo_terminal import ALTERNATE, PseudoTerminal
from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COMMAND = "from kanalyze.cli.main import run; run()"
RUN = ("-c", WITH_FEW_FINDINGS + COMMAND, "live", "-")


class Live(PseudoTerminal):
    """The command on a terminal; its standard input is a pipe that stays open."""

    def __init__(
        self, *options: str, width: int = 80, height: int = 24, **environment: str
    ) -> None:
        reading, self._writing = os.pipe()
        try:
            super().__init__(
                *RUN, *options, stdin=reading, width=width, height=height, **environment
            )
        finally:
            os.close(reading)
        self._is_open = True

    def give(self, data: bytes) -> None:
        """Write to the pipe; wait if it is full."""
        while data:
            data = data[os.write(self._writing, data[:4096]) :]

    def choose(self, table: bytes) -> None:
        """Choose a table once the view is shown: it would not get earlier keys."""
        self.see(ALTERNATE.decode())
        self.press(table)

    def give_no_more(self) -> None:
        """Close the pipe."""
        if self._is_open:
            self._is_open = False
            os.close(self._writing)


@contextmanager
def started(*options: str, width: int = 80, height: int = 24, **environment: str) -> Iterator[Live]:
    with Live(*options, width=width, height=height, **environment) as live:
        try:
            yield live
        finally:
            live.give_no_more()


@cache
def parts(name: str, count: int) -> list[bytes]:
    """Return a pcap file in some parts, which may end within a packet."""
    data = path(name).read_bytes()
    return [data[len(data) * n // count : len(data) * (n + 1) // count] for n in range(count)]


def apis_in(screen: list[str]) -> list[str]:
    """Return the APIs in the table of the slowest requests; no line of it may be cut."""
    entries = [line for line in screen if re.match(r" *[0-9.]+ [\u00b5mn]?s  ", line)]
    return [re.split("  +", line.strip())[1] for line in entries]


def shows(*texts: str) -> Callable[[list[str]], bool]:
    return lambda screen: all(any(text in line for line in screen) for text in texts)


# -- keys -----------------------------------------------------------------------------------------


def test_keys_change_the_view_while_a_capture_comes():
    first, second, third = parts("groups", 3)
    with started("--format", "view") as live:
        live.give(first)
        # Slow requests are shown for a minute, longer than any test takes.
        live.choose(b"4")
        live.see_screen(shows("latency\u2193", "JoinGroup v"))

        live.press(b"s")
        screen = live.see_screen(shows("API\u2193"))
        assert apis_in(screen) == sorted(apis_in(screen)) != []
        live.press(b"r")
        screen = live.see_screen(shows("API\u2191"))
        assert apis_in(screen) == sorted(apis_in(screen), reverse=True)

        live.press(b"/joing")
        live.see_screen(lambda screen: screen[-1].startswith("/joing"))
        live.press(b"\r")
        screen = live.see_screen(shows("only joing"))
        assert {name.split()[0] for name in apis_in(screen)} == {"JoinGroup"}
        live.press(b"\x1b/zzz\r")
        live.see_screen(shows("nothing matches"))
        live.press(b"\x1b")
        live.see_screen(shows("SyncGroup v", "Metadata v"))

        live.press(b"p")
        before = live.see_screen(lambda screen: screen[0].startswith("PAUSED"))
        live.give(second)
        live.output = b""
        assert live.see_screen(lambda _: True) == before
        live.press(b"p")
        live.see_screen(lambda screen: not screen[0].startswith("PAUSED"))

        live.press(b"5")
        live.see_screen(shows("rebalances", "groups-classic"))
        live.press(b"?")
        live.see_screen(shows("counting continues"))
        live.press(b"x")
        live.see_screen(shows("rebalances"))
        live.give(third)
        live.press(b"q")
        assert live.end() == 0
        assert live.is_as_before()
        assert "Requests" in live.text_behind()
        assert "Busiest topics" in live.text_behind()


@pytest.mark.long
def test_a_finding_opens_its_requests(tmp_path):
    failing = (
        "-- Of a user.\n-- severity: 9\n-- sure: no.\n-- why: so.\n-- repair: none.\nFROM nothing"
    )
    (tmp_path / "worse.sql").write_text(failing)
    options = ("--format", "view", "--queries", str(tmp_path))
    with started(*options, width=160, height=40) as live:
        live.give(b"".join(parts("fault-too-large", 1)))
        live.choose(b"8")
        screen = live.see_screen(shows("whom", "MESSAGE_TOO_LARGE"))
        assert shows("left out: worse: query 'worse': ")(screen)
        live.press(b"\x1b[B")
        live.press(b"\r")
        screen = live.see_screen(
            shows("findings: too large: ", "why: ", "repair: ", "slowest first")
        )
        rows = [line for line in screen if "Produce v" in line]
        assert rows
        assert all("MESSAGE_TOO_LARGE" in line for line in rows)
        live.press(b"\x1b[B")
        live.press(b"\r")
        live.see_screen(shows("request_start_ns", "MESSAGE_TOO_LARGE"))
        live.press(b"q")
        assert live.end() == 0
        # Reported once, after the report.
        assert live.text_behind().count("finding 'worse' is left out: ") == 1


def test_findings_are_shown_and_a_line_opens_its_requests():
    filters = ("--api", "JoinGroup", "--api", "SyncGroup")
    with started("--format", "view", *filters, width=100, height=40) as live:
        live.give(b"".join(parts("groups", 3)))
        live.choose(b"8")
        # Without heartbeats, members seem to be silent.
        about = "left out: late_heartbeats: requests are filtered by api"
        live.see_screen(shows("Findings: none", about, "only --api JoinGroup --api SyncGroup"))
        live.press(b"p")
        live.see_screen(lambda screen: screen[0].startswith("PAUSED"))
        live.press(b"4/groups-classic\r")
        screen = live.see_screen(shows("--api SyncGroup groups-classic", "JoinGroup v"))
        assert {name.split()[0] for name in apis_in(screen)} <= {"JoinGroup", "SyncGroup"}
        live.press(b"5\x1b[B")
        live.see_screen(shows("groups-classic", "5 groups"))
        live.press(b"\r")
        live.see_screen(shows("groups: groups-classic: ", "slowest first"))
        live.press(b"s")
        live.see_screen(shows("latest first"))
        live.press(b"\x1b[B")
        live.press(b"\r")
        live.see_screen(shows("request_start_ns", "groups-classic"))
        live.press(b"\x1b")
        live.see_screen(shows("latest first"))
        live.press(b"\x1b")
        live.see_screen(shows("rebalances"))
        live.press(b"q")
        assert live.end() == 0
        assert live.is_as_before()


def test_a_pipe_without_packets_is_an_alert():
    with started("--format", "view") as live:
        screen = live.see_screen(shows("no packets yet for 3 s"))
        assert "is the pipe flushed" in "".join(screen)
        live.press(b"q")
        assert live.end() == 0
        assert live.is_as_before()


@pytest.mark.long
def test_the_view_ends_with_the_pipe():
    with started() as live:
        # Standard output is a terminal, so there is a view.
        live.see(ALTERNATE.decode())
        for part in parts("groups", 3):
            live.give(part)
        live.give_no_more()
        assert live.end() == 0
        assert live.is_as_before()
        assert "groups-next" in live.text_behind()


# -- interrupts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("interrupt", often(["ctrl-c", "SIGTERM"], ["ctrl-c"]))
def test_an_interrupt_ends_the_view_with_a_report(interrupt):
    with started("--format", "view") as live:
        for part in parts("groups", 3):
            live.give(part)
        live.choose(b"4")
        live.see("OffsetF")
        assert not live.is_as_before()
        if interrupt == "ctrl-c":
            live.press(b"\x03")
        else:
            live.process.send_signal(signal.SIGTERM)
        assert live.end() == 0
        assert live.is_as_before()
        assert "verdict: " in live.text_behind()


def test_a_second_interrupt_ends_the_run_at_once():
    with started("--format", "view", width=300, height=80) as live:
        live.give(parts("groups", 1)[0])
        live.see("groups-classic")
        # A terminal that reads nothing delays the end of the run.
        live.hold_output()
        live.interrupt()
        live.process.send_signal(signal.SIGINT)
        live.release_output()
        assert live.end() == 130
        assert live.is_as_before()
        assert "Traceback" not in live.text_behind()


# -- terminals ------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "height"), [(40, 10), pytest.param(300, 80, marks=pytest.mark.long)]
)
def test_every_screen_has_the_size_of_the_terminal(width, height):
    variables = {"COLUMNS": "77", "LINES": "13"}
    with started("--format", "view", width=width, height=height, **variables) as live:
        for part in parts("groups", 3):
            live.give(part)
        live.choose(b"4")
        screen = live.see_screen(shows("Offset"))
        assert len(screen) == height
        assert max(map(cell_len, screen)) <= width
        # A new size is followed.
        live.output = b""
        live.resize(81, 25)
        screen = live.see_screen(lambda screen: len(screen) == 25 and shows("Offset")(screen))
        assert max(map(cell_len, screen)) <= 81
        live.press(b"q")
        assert live.end() == 0


def test_a_dumb_terminal_gets_lines_in_place_of_the_view():
    with started("--interval", "0.1", TERM="dumb") as live:
        live.give(parts("groups", 1)[0])
        live.see('"api_name":"OffsetForLeaderEpoch"')
        live.give_no_more()
        assert live.end() == 0
        assert ALTERNATE not in live.output
    with started("--format", "view", TERM="dumb") as live:
        assert live.end() == 2
        assert b"there is no terminal to draw on" in live.output


@pytest.mark.long
def test_the_view_has_no_keys_without_a_controlling_terminal():
    """Standard output is a terminal, but the process has no controlling terminal for keys."""
    with (
        path("groups").open("rb") as file,
        PseudoTerminal("-c", DETACHED, *RUN, stdin=file.fileno()) as terminal,
    ):
        assert terminal.end() == 0
        assert terminal.is_as_before()
        assert ALTERNATE in terminal.output
        assert "verdict: " in terminal.text_behind()


DETACHED = """
import subprocess, sys
sys.exit(subprocess.run([sys.executable, *sys.argv[1:]], start_new_session=True).returncode)
"""


# -- terminals that close -------------------------------------------------------------------------


def test_all_files_are_complete_if_the_terminal_closes(tmp_path):
    report, rows = tmp_path / "report.json", tmp_path / "rows"
    with started("--format", "view", "--json", str(report), "--write", str(rows)) as live:
        live.give(b"".join(parts("groups", 1)))
        live.see("groups-classic")
        live.hang_up()
        # The report cannot be shown.
        assert live.process.wait(LONG_S) == 2
    written = sum(pq.read_metadata(file).num_rows for file in rows.glob("*.parquet"))
    assert json.loads(report.read_bytes())["totals"]["requests"] == written > 0


@pytest.mark.long
def test_a_view_without_keys_ends_with_its_terminal():
    reading, writing = os.pipe()
    with PseudoTerminal("-c", DETACHED, *RUN, stdin=reading) as terminal:
        os.close(reading)
        terminal.see("no packets")
        terminal.hang_up()
        # The hangup kills the waiting parent; the command's end of the pipe is closed when it ends.
        poll = select.poll()
        poll.register(writing, select.POLLERR)
        assert poll.poll(LONG_S * 1000)
    os.close(writing)


@pytest.mark.long
@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_run_to_a_file_ends_with_the_terminal_unless_hangups_are_ignored(is_ignored, tmp_path):
    lines, report = tmp_path / "lines.jsonl", tmp_path / "report.json"
    reading, writing = os.pipe()
    argv = (str(lines), str(int(is_ignored)), *RUN, "--interval", "0.1", "--json", str(report))
    with PseudoTerminal("-c", TO_FILE, *argv, stdin=reading) as terminal:
        os.close(reading)
        wait_for_lines(lines, 1)
        terminal.hang_up()
        if is_ignored:
            wait_for_lines(lines, len(lines.read_bytes().splitlines()) + 10)
            os.write(writing, parts("groups", 1)[0])
            os.close(writing)
        assert terminal.process.wait(LONG_S) == 0
    contents = json.loads(report.read_bytes())
    assert (contents["totals"]["requests"] > 0) == is_ignored


def wait_for_lines(file: Path, count: int) -> None:
    wait_until(lambda: file.exists() and len(file.read_bytes().splitlines()) >= count)


TO_FILE = """
import os, signal, sys
to = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.dup2(to, 1)
os.dup2(to, 2)
if int(sys.argv[2]):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""
