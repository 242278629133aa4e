"""Root rights from sudo are given up; each test runs its own process.

Needs Linux and root; elsewhere this file is not collected (see conftest.py, which says so).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kanalyze
from tests.support.few_findings import WITH_FEW_FINDINGS
from tests.support.netns import Namespace
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Iterator

USER, GROUP = 61_234, 61_235
"""Ids that no user of this machine has: sudo passes numbers."""
COMMAND = WITH_FEW_FINDINGS + "from kanalyze.cli.main import run; run()"
SUDO = {"SUDO_UID": str(USER), "SUDO_GID": str(GROUP)}

PROBE = """
import json, os, socket, sys
from kanalyze.live.privileges import give_up_root
os.setgroups([0, 4, 27])
said = give_up_root(may_capture=sys.argv[1] == "yes")
import kanalyze.kafka.schema.catalog  # what was not needed before
told = {"said": said, "ids": [*os.getresuid(), *os.getresgid()], "groups": os.getgroups()}
def tried(what):
    try:
        what()
    except OSError as error:
        return type(error).__name__
    return "done"
told["root again"] = tried(lambda: os.setuid(0))
told["capture"] = tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close())
told["read"] = tried(lambda: open("/etc/shadow").close())
told["write"] = tried(lambda: open("/etc/shadow", "a").close())
with open("/proc/self/status") as lines:
    told["capabilities"] = {line[:6]: int(line[8:], 16) for line in lines if line[:3] == "Cap"}
print(json.dumps(told))
"""


HOME = Path(kanalyze.__file__).parents[1]


def probe(
    may_capture: bool, *, where: Path = HOME, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROBE, "yes" if may_capture else "no"],
        cwd=where,  # comes before PYTHONPATH
        env={**os.environ, "PYTHONPATH": str(where), **environment},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


def cannot_read(told: str) -> bool:
    """Return whether the message says that the user cannot read the program."""
    return (
        re.fullmatch(rf"(kanalyze: )?user {USER}, who called sudo, cannot read .*\n", told)
        is not None
    )


@pytest.mark.parametrize("may_capture", [True, False])
def test_only_the_right_to_capture_is_kept_of_root(may_capture: bool) -> None:
    told = json.loads(probe(may_capture, **SUDO).stdout)
    assert told["ids"] == [USER] * 3 + [GROUP] * 3
    assert told["groups"] == []
    assert told["root again"] == told["write"] == "PermissionError"
    assert told["capture"] == ("done" if may_capture else "PermissionError")
    # If the program lies in a folder of root, the right to read files is kept.
    reads = 1 << 2 if told["said"] else 0
    assert told["read"] == ("done" if reads else "PermissionError")
    left = told["capabilities"]
    assert left["CapEff"] == left["CapPrm"] == (1 << 13 if may_capture else 0) | reads
    assert left["CapInh"] == left["CapAmb"] == 0


def test_a_user_who_cannot_read_the_program_gets_a_message(tmp_path: Path) -> None:
    """A copy of the program below a folder of root, from which modules are loaded later."""
    shutil.copytree(Path(kanalyze.__file__).parent, tmp_path / "hidden" / "kanalyze")
    (tmp_path / "hidden").chmod(0o700)
    done = probe(True, where=tmp_path / "hidden", **SUDO)
    assert "keeps the right to read all files" in json.loads(done.stdout)["said"]


@pytest.mark.parametrize("environment", [{}, {"SUDO_UID": "0", "SUDO_GID": "0"}])
def test_root_without_sudo_stays_root(environment: dict[str, str]) -> None:
    told = json.loads(probe(True, **environment).stdout)
    assert told["ids"] == [0] * 6
    assert told["groups"] == [0, 4, 27]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder of the user that is not below a folder of root."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        os.chown(made, USER, GROUP)
        yield Path(made)
        os.chown(made, 0, 0)


def live(folder: Path, *argv: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    names = ("--json", "report.json", "--write", "rows", "--save", "kept.pcapng")
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
    _, told = process.communicate(timeout=LONG_S)
    assert process.returncode == 0, told
    assert not told or cannot_read(told)
    found = sorted(folder.rglob("*"))
    assert {file.name for file in found if file.parent == folder} == names
    for file in found:
        assert (file.stat().st_uid, file.stat().st_gid) == (USER, GROUP), file
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0 or file.suffix != ".pcapng"


def test_files_of_an_interface_are_those_of_who_called_sudo(folder: Path) -> None:
    with Namespace() as own:
        prefix = tuple(own.command())
        process = live(folder, "-i", "lo", "--duration", "1", prefix=prefix)
        check_ended(process, folder, {"report.json", "rows"})


@pytest.mark.long
def test_files_of_a_run_on_a_pipe_belong_to_the_user_too(folder: Path) -> None:
    data = (Path(__file__).parents[2] / "captures" / "errors.pcapng").read_bytes()
    process = live(folder, "-")
    assert process.stdin is not None
    process.stdin.buffer.write(data)
    check_ended(process, folder, {"report.json", "rows", "kept.pcapng"})


@pytest.mark.long
def test_an_interface_that_comes_back_is_captured_again(folder: Path) -> None:
    """A packet socket needs only the right to capture."""
    with Namespace() as own:
        own.add_pair("gone", "other")
        process = live(folder, "-i", "gone", "--duration", "8", prefix=tuple(own.command()))
        wait_for(folder / "rows")
        own.ip("link", "del", "gone")
        own.add_pair("gone", "other")
        check_ended(process, folder, {"report.json", "rows"})


def wait_for(path: Path) -> None:
    """Wait until the file exists: root is given up before it is created."""
    until_s = time.monotonic() + LONG_S
    while not path.exists():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def test_a_packet_socket_takes_a_right() -> None:
    """The ids that the tests above expect."""
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
