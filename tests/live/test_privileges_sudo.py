"""Live gives up the root rights of sudo. Each test runs its own process.

Needs Linux and root; elsewhere this file is not collected (see conftest.py, which says so).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kanalyze
from tests.support.few_findings import WITH_FEW_FINDINGS
from tests.support.netns import Namespace
from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

USER, GROUP = 61_234, 61_235
"""Ids that no user of this machine has. The program needs only the numbers."""
COMMAND = WITH_FEW_FINDINGS + "from kanalyze.cli.main import run; run()"
SUDO = {"SUDO_UID": str(USER), "SUDO_GID": str(GROUP)}

PROBE = """
import json, os, socket, sys
from kanalyze.live.privileges import give_up_root
os.setgroups([0, 4, 27])
message = give_up_root(may_capture=sys.argv[1] == "yes")
import kanalyze.kafka.schema.catalog  # not imported before
state = {"message": message, "ids": [*os.getresuid(), *os.getresgid()], "groups": os.getgroups()}
def result_of(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"
state["root again"] = result_of(lambda: os.setuid(0))
state["capture"] = result_of(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close())
state["read"] = result_of(lambda: open("/etc/shadow").close())
state["write"] = result_of(lambda: open("/etc/shadow", "a").close())
with open("/proc/self/status") as lines:
    state["capabilities"] = {line[:6]: int(line[8:], 16) for line in lines if line[:3] == "Cap"}
print(json.dumps(state))
"""


HOME = Path(kanalyze.__file__).parents[1]


def probe(
    may_capture: bool, *, program_folder: Path = HOME, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROBE, "yes" if may_capture else "no"],
        cwd=program_folder,  # modules in it come before those in PYTHONPATH
        env={**os.environ, "PYTHONPATH": str(program_folder), **environment},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


def cannot_read(message: str) -> bool:
    """Return true if the message says that the user cannot read the program."""
    return (
        re.fullmatch(rf"(kanalyze: )?user {USER}, who called sudo, cannot read .*\n", message)
        is not None
    )


@pytest.mark.parametrize("may_capture", [True, False])
def test_root_keeps_only_the_right_to_capture(may_capture: bool) -> None:
    state = json.loads(probe(may_capture, **SUDO).stdout)
    assert state["ids"] == [USER] * 3 + [GROUP] * 3
    assert state["groups"] == []
    assert state["root again"] == state["write"] == "PermissionError"
    assert state["capture"] == ("done" if may_capture else "PermissionError")
    # If the program lies in a folder of root, the right to read files is kept.
    reads = 1 << 2 if state["message"] else 0
    assert state["read"] == ("done" if reads else "PermissionError")
    capabilities = state["capabilities"]
    assert (
        capabilities["CapEff"] == capabilities["CapPrm"] == (1 << 13 if may_capture else 0) | reads
    )
    assert capabilities["CapInh"] == capabilities["CapAmb"] == 0


def test_a_user_who_cannot_read_the_program_gets_a_message(tmp_path: Path) -> None:
    """A copy of the program, which loads modules later, lies in a folder of root."""
    shutil.copytree(Path(kanalyze.__file__).parent, tmp_path / "hidden" / "kanalyze")
    (tmp_path / "hidden").chmod(0o700)
    done = probe(True, program_folder=tmp_path / "hidden", **SUDO)
    assert "keeps the right to read all files" in json.loads(done.stdout)["message"]


@pytest.mark.parametrize("environment", [{}, {"SUDO_UID": "0", "SUDO_GID": "0"}])
def test_root_without_sudo_stays_root(environment: dict[str, str]) -> None:
    state = json.loads(probe(True, **environment).stdout)
    assert state["ids"] == [0] * 6
    assert state["groups"] == [0, 4, 27]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the user that is not inside of a folder of root."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        os.chown(path, USER, GROUP)
        yield Path(path)
        os.chown(path, 0, 0)


def live(folder: Path, *argv: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    names = ("--json", "report.json", "--write", "rows", "--save", "saved.pcapng")
    files = [text if text.startswith("--") else str(folder / text) for text in names]
    return subprocess.Popen(
        [
            *(*prefix, sys.executable, "-c", COMMAND, "live", *argv),
            *("--format", "rows", "--save-slower-than", "0s", *files),
        ],
        env={**os.environ, "PYTHONPATH": str(HOME), **SUDO},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check_ended(process: subprocess.Popen[str], folder: Path, names: set[str]) -> None:
    _, messages = process.communicate(timeout=LONG_S)
    assert process.returncode == 0, messages
    assert not messages or cannot_read(messages)
    files = sorted(folder.rglob("*"))
    assert {file.name for file in files if file.parent == folder} == names
    for file in files:
        assert (file.stat().st_uid, file.stat().st_gid) == (USER, GROUP), file
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0 or file.suffix != ".pcapng"


def test_files_of_a_run_on_an_interface_belong_to_the_caller_of_sudo(folder: Path) -> None:
    with Namespace() as namespace:
        prefix = tuple(namespace.command())
        process = live(folder, "-i", "lo", "--duration", "1", prefix=prefix)
        check_ended(process, folder, {"report.json", "rows"})


@pytest.mark.long
def test_files_of_a_run_on_a_pipe_belong_to_the_caller_of_sudo(folder: Path) -> None:
    data = (Path(__file__).parents[2] / "captures" / "errors.pcapng").read_bytes()
    process = live(folder, "-")
    assert process.stdin is not None
    process.stdin.buffer.write(data)
    check_ended(process, folder, {"report.json", "rows", "saved.pcapng"})


@pytest.mark.long
def test_an_interface_that_comes_back_is_captured_again(folder: Path) -> None:
    """A new packet socket needs only the right to capture."""
    with Namespace() as namespace:
        namespace.add_pair("gone", "other")
        process = live(folder, "-i", "gone", "--duration", "8", prefix=tuple(namespace.command()))
        wait_until((folder / "rows").exists)  # it is created after root rights are given up
        namespace.ip("link", "del", "gone")
        namespace.add_pair("gone", "other")
        check_ended(process, folder, {"report.json", "rows"})
