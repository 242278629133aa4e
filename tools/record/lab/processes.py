"""Running other programs, each with a time limit and none left behind."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.errors import RecorderError

PACKAGES = {
    "java": "openjdk-17-jre-headless",
    "mvn": "maven",
    "tcpdump": "tcpdump",
    "ip": "iproute2",
    "ss": "iproute2",
    "ethtool": "ethtool",
    "openssl": "openssl",
    "dumpcap": "tshark",
    "capinfos": "tshark",
    "editcap": "tshark",
    "tshark": "tshark",
    "cc": "gcc",
    "node": "nodejs",
    "go": "golang-go",
}


def need(*programs: str) -> None:
    """Fail with the Debian package's name when a program is missing."""
    for program in programs:
        if shutil.which(program) is None:
            package = PACKAGES.get(program, program)
            raise RecorderError(f"{program} is missing: install the Debian package {package}")


def need_root() -> None:
    """Namespaces and captures need root."""
    if os.geteuid() != 0:
        raise RecorderError("run this as root: it makes network namespaces and captures packets")


def run(
    command: Sequence[str],
    *,
    timeout: float,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; a failure becomes one line with the end of its stderr."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=None if env is None else dict(env),
        start_new_session=True,
    )
    try:
        out, err = child.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        end_group(child)
        raise RecorderError(f"no end within {timeout:.0f} s: {describe(command)}") from None
    except BaseException:
        end_group(child)
        raise
    if check and child.returncode != 0:
        last = (err.strip() or out.strip() or "no output").splitlines()[-1]
        raise RecorderError(f"exit {child.returncode}: {describe(command)}: {last}")
    return subprocess.CompletedProcess(list(command), child.returncode, out, err)


def describe(command: Sequence[str]) -> str:
    """A short form of a command for a message: the class path and other long words left out."""
    words = [word if len(word) < 80 else "..." for word in command]
    return " ".join(words)[:300]


def end_group(child: subprocess.Popen[str] | subprocess.Popen[bytes], grace: float = 10.0) -> None:
    """End a child and the children of its own session: SIGTERM first, then SIGKILL."""
    for sign, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        if child.poll() is not None:
            return
        os.killpg(child.pid, sign)
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def start(command: Sequence[str], *, log: Path, stdin: bool = False) -> subprocess.Popen[str]:
    """Start a program in a session of its own, its output in a file."""
    with log.open("w") as sink:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def wait_for(what: str, ready: Callable[[], bool], *, timeout: float, every: float = 0.1) -> None:
    """Poll until something is so, or fail saying what was waited for."""
    end = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > end:
            raise RecorderError(f"waited {timeout:.0f} s for {what}")
        time.sleep(every)
