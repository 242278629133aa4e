"""No test depends on where the checkout lies, who runs it, or how fast the machine is.

The tests here check what this needs; see also CONTRIBUTING.md.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import effort
from tests.support.captures import ROOT
from tests.support.effort import took_soon
from tests.support.pseudo_terminal import PseudoTerminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.netns import Namespace

WAITING = ROOT / "tests" / "support" / "waiting.py"
RIGHTS = ROOT / "tests" / "support" / "rights.py"
DEADLINES = re.compile(r"(?<!-)timeout=\d|\.(?:wait|join|result)\(\d|monotonic\(\) \+ (?!LONG_S)")
OTHER_USERS = re.compile(r"[\"']setpriv|set(?:res)?uid\((?!0\))")


def lines_with(pattern: re.Pattern[str], but: Path) -> list[str]:
    files = [file for file in sorted((ROOT / "tests").rglob("*.py")) if file != but]
    return [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_test_has_a_deadline_of_its_own() -> None:
    """Tests wait for an event, with `wait_until` and LONG_S of tests/support/waiting.py."""
    assert lines_with(DEADLINES, WAITING) == []


def test_no_test_becomes_another_user_by_itself() -> None:
    """That user could not read the checkout: `ordinary_user` of tests/support/rights.py can."""
    assert lines_with(OTHER_USERS, RIGHTS) == []


def test_an_ordinary_user_reads_a_program_in_a_closed_folder(
    ordinary_user: Callable[..., list[str]], tmp_path: Path
) -> None:
    program = tmp_path / "closed" / "checkout" / "program.py"
    program.parent.mkdir(parents=True)
    program.write_text("import os; print(os.getuid() > 0)")
    program.chmod(0o600)
    program.parent.parent.chmod(0o700)
    words = [*ordinary_user(), sys.executable, "-S", str(program)]
    assert subprocess.run(words, check=True, capture_output=True).stdout == b"True\n"


def test_an_interface_passes_packets_as_soon_as_it_is_up_again(namespace: Namespace) -> None:
    namespace.add_pair()
    for turn in range(1, 21):
        namespace.ip("link", "set", "other", "down")
        namespace.set_up("other")
        namespace.send([bytes(60)] * 3)
        assert namespace.count_arrived() == 3 * turn


@pytest.fixture
def _signals_ignored() -> Iterator[None]:
    """Ignore signals as nohup does, and as a shell does for background jobs."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals_ignored")
def test_ctrl_c_ends_a_program_started_by_a_process_that_ignores_interrupts() -> None:
    with PseudoTerminal("-c", "import signal; print('begun', flush=True); signal.pause()") as made:
        made.see("begun")
        made.press(b"\x03")
        assert made.end() != 0


def test_a_slow_processor_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "_seconds_of_turns", lambda: effort._USUAL_S * 5)
    assert took_soon(0.9, 1)
    assert took_soon(4.9, 1)
    assert not took_soon(5.1, 1)
    monkeypatch.setattr(effort, "_seconds_of_turns", lambda: effort._USUAL_S / 5)
    assert took_soon(0.9, 1)
