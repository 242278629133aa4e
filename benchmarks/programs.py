"""The commands that are compared, and what has to be known to be fair to each.

In: a capture. Out: command lines, versions, counts.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks.errors import BenchmarkError, lines_of, output_of

KANALYZE = str(Path(sys.executable).parent / "kanalyze")
TSHARK, TCPDUMP = "tshark", "tcpdump"
_FIELDS = ("frame.number", "kafka.api_key", "kafka.correlation_id", "kafka.len")
JOBS = (1, 2)
_MIN_DISSECTED = 0.5


def kanalyze_commands(capture: Path, folder: Path, jobs: tuple[int, ...]) -> dict[str, list[str]]:
    """Return what is measured of kanalyze, by name; ``jobs`` are the numbers of processes to try.

    A command that has no --jobs is there once.
    """
    rows = ["-o", str(folder / "rows.parquet")]
    found = {}
    for name, more in (("requests", rows), ("report", [])):
        command = [KANALYZE, name, str(capture), *more]
        if "--jobs" not in output_of(KANALYZE, name, "--help"):
            found[f"kanalyze {name}"] = command
            continue
        for count in jobs:
            found[f"kanalyze {name} --jobs {count}"] = [*command, "--jobs", str(count)]
    return found


def broker_ports(capture: Path) -> list[int]:
    """Return the ports that answered a SYN."""
    filter_ = ("-Y", "tcp.flags == 0x12", "-T", "fields", "-e", "tcp.srcport")
    return sorted(
        {int(port) for port in output_of(TSHARK, "-n", "-r", str(capture), *filter_).split()}
    )


def tshark_command(capture: Path, ports: list[int]) -> list[str]:
    """Return the command that has tshark dissect Kafka on these ports, and print four fields."""
    command = [TSHARK, "-n", "-r", str(capture), "-T", "fields"]
    for port in ports:
        command += ["-d", f"tcp.port=={port},kafka"]
    for field in _FIELDS:
        command += ["-e", field]
    return command


def tcpdump_command(capture: Path) -> list[str]:
    """Return the command that does nothing but read."""
    return [TCPDUMP, "-r", str(capture), "-w", os.devnull]


def commands(capture: Path, ports: list[int], folder: Path) -> dict[str, list[str]]:
    """Return all that is compared, by name."""
    return {
        **kanalyze_commands(capture, folder, JOBS),
        TSHARK: tshark_command(capture, ports),
        TCPDUMP: tcpdump_command(capture),
    }


def messages_of_kanalyze(capture: Path) -> int:
    """Return how many requests and responses kanalyze finds."""
    totals = json.loads(output_of(KANALYZE, "report", str(capture), "--json", "-"))["totals"]
    return int(totals["requests"] + totals["responses"])


def messages_of_tshark(capture: Path, ports: list[int]) -> int:
    """Return how many requests and responses tshark finds."""
    lines = (line.rstrip("\n") for line in lines_of(*tshark_command(capture, ports)))
    return sum(len(lengths.split(",")) for line in lines if (lengths := line.rpartition("\t")[2]))


def check_same_work(capture: Path, ours: int, theirs: int) -> None:
    """Raise when tshark did not dissect Kafka: its time would say nothing."""
    if theirs < _MIN_DISSECTED * ours:
        raise BenchmarkError(f"{capture.name}: tshark found {theirs:,} of {ours:,} Kafka messages")


def machine() -> str:
    """Return one line on the machine, the system, Python, the libraries and the revision."""
    cores = f"{os.cpu_count()} cores of {_processor()}"
    libraries = [f"{name} {version(name)}" for name in ("numpy", "pyarrow", "kanalyze")]
    python = f"Python {platform.python_version()}"
    return ", ".join([cores, platform.system(), python, *libraries, f"revision {revision()}"])


def revision() -> str:
    """Return which state of the code is measured: figures of another one say nothing of it."""
    folder = str(Path(__file__).resolve().parent)
    return output_of("git", "-C", folder, "describe", "--always", "--dirty", "--abbrev=10").strip()


def versions() -> str:
    """Return one line on the machine and the versions of all that takes part."""
    tshark, tcpdump = (output_of(name, "--version").split()[2] for name in (TSHARK, TCPDUMP))
    return f"{machine()}, tshark {tshark.rstrip('.')}, tcpdump {tcpdump}"


def _processor() -> str:
    """Return the processor's name, as far as the system tells."""
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
