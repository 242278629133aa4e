"""The commands that are compared, and what has to be known to be fair to each.

In: a capture. Out: command lines, versions, counts.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import revision
from benchmarks.errors import BenchmarkError, lines_of, output_of

if TYPE_CHECKING:
    from collections.abc import Iterable

KANALYZE = str(Path(sys.executable).parent / "kanalyze")
TSHARK, TCPDUMP = "tshark", "tcpdump"
_FIELDS = ("frame.number", "kafka.api_key", "kafka.correlation_id", "kafka.len")
JOBS = (1, 2)
REQUESTS, REPORT = "requests", "report"
CSV, JSON_LINES = "requests to CSV", "requests to JSON Lines"
COMMANDS = {
    REQUESTS: "requests {capture} -o {out}.parquet",
    REPORT: "report {capture}",
    CSV: "requests {capture} -o {out}.csv",
    JSON_LINES: "requests {capture} -o {out}.jsonl",
    "decode": "decode {capture}",
    "records": "records {capture} -o {out}.parquet",
    "extract": "extract {capture} --api Produce -o {out}.pcapng",
    "compare": "compare {capture} {capture}",
    "anonymize": "anonymize {capture} -o {out}.pcapng",
}
SCALED = (REQUESTS, REPORT, "anonymize")
"""What is measured with every number of jobs; the others with one."""
START, HELP = "python -c pass", "kanalyze --help"
START_COMMANDS = {START: [sys.executable, "-c", "pass"], HELP: [KANALYZE, "--help"]}
"""What says something of a start, beside commands on a capture of no packets."""
_MIN_DISSECTED = 0.5


class Source(NamedTuple):
    """What is read: a capture, and what has to be known of it."""

    capture: Path
    ports: list[int]
    """Of brokers."""
    keys: Path | None = None
    """A key log."""

    @property
    def keys_words(self) -> list[str]:
        """How kanalyze is told of the key log."""
        return [] if self.keys is None else ["--keylog", str(self.keys)]


def kanalyze_commands(
    source: Source,
    folder: Path,
    names: Iterable[str] = (REQUESTS, REPORT),
    jobs: tuple[int, ...] = (1,),
) -> dict[str, list[str]]:
    """Return what is measured of kanalyze, by name; ``jobs`` are the numbers of jobs to try.

    A command that has no --jobs is there once, and one that reads no key log is not there where it
    would need one.
    """
    found = {}
    for name in names:
        texts = COMMANDS[name].split()
        words = [word.format(capture=source.capture, out=folder / "out") for word in texts]
        help_ = output_of(KANALYZE, words[0], "--help")
        if source.keys is not None and "--keylog" not in help_:
            continue
        command = [KANALYZE, *words, *source.keys_words]
        if "--jobs" not in help_:
            found[name] = command
            continue
        for count in jobs if name in SCALED else jobs[:1]:
            found[with_jobs(name, count)] = [*command, "--jobs", str(count)]
    return found


def with_jobs(name: str, count: int) -> str:
    """Return the name of a command with so many jobs."""
    return f"{name} --jobs {count}"


def base_name(name: str) -> str:
    """Return the name of a command without its number of jobs."""
    return name.partition(" --jobs")[0]


def broker_ports(capture: Path) -> list[int]:
    """Return the ports that answered a SYN."""
    filter_ = ("-Y", "tcp.flags == 0x12", "-T", "fields", "-e", "tcp.srcport")
    return sorted(
        {int(port) for port in output_of(TSHARK, "-n", "-r", str(capture), *filter_).split()}
    )


def tshark_command(capture: Path, ports: list[int], keys: Path | None = None) -> list[str]:
    """Return the command that has tshark dissect Kafka on these ports, and print four fields."""
    command = [TSHARK, "-n", "-r", str(capture), "-T", "fields"]
    for port in ports:
        if keys is not None:
            command += ["-d", f"tcp.port=={port},tls", "-d", f"tls.port=={port},kafka"]
            continue
        command += ["-d", f"tcp.port=={port},kafka"]
    if keys is not None:
        command += ["-o", f"tls.keylog_file:{keys}"]
    for field in _FIELDS:
        command += ["-e", field]
    return command


def tcpdump_command(capture: Path) -> list[str]:
    """Return the command that does nothing but read."""
    return [TCPDUMP, "-r", str(capture), "-w", os.devnull]


def commands(source: Source, folder: Path, names: Iterable[str]) -> dict[str, list[str]]:
    """Return all that is compared, by name."""
    return {
        **kanalyze_commands(source, folder, names, JOBS),
        TSHARK: tshark_command(*source),
        TCPDUMP: tcpdump_command(source.capture),
    }


def rooms_read(command: list[str]) -> list[str]:
    """Run a command of kanalyze; return the rooms of the package whose modules it imports."""
    # Python itself says what it imports, in the processes that the command starts too.
    words = [sys.executable, "-X", "importtime", *command]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    names = re.findall(rb"\| +(kanalyze(?:\.\w+)*)$", done.stderr, re.MULTILINE)
    paths = [name.decode().replace(".", "/") for name in names]
    packages = (f"{path}/" if (revision.ROOT / path).is_dir() else path for path in paths)
    return sorted({revision.BUILD, *map(revision.room_of, packages)})


def messages_of_kanalyze(source: Source) -> int:
    """Return how many requests and responses kanalyze finds."""
    words = ("report", str(source.capture), "--json", "-", *source.keys_words)
    totals = json.loads(output_of(KANALYZE, *words))["totals"]
    return int(totals["requests"] + totals["responses"])


def messages_of_tshark(source: Source) -> int:
    """Return how many requests and responses tshark finds."""
    lines = (line.rstrip("\n") for line in lines_of(*tshark_command(*source)))
    return sum(len(lengths.split(",")) for line in lines if (lengths := line.rpartition("\t")[2]))


def check_same_work(capture: Path, ours: int, theirs: int) -> None:
    """Raise when tshark did not dissect Kafka: its time would say nothing."""
    if theirs < _MIN_DISSECTED * ours:
        raise BenchmarkError(f"{capture.name}: tshark found {theirs:,} of {ours:,} Kafka messages")


def machine() -> str:
    """Return one line on the machine, the system, Python and the libraries."""
    cores = f"{os.cpu_count()} cores of {_processor()}"
    libraries = [f"{name} {version(name)}" for name in ("numpy", "pyarrow", "duckdb", "kanalyze")]
    return ", ".join([cores, platform.system(), f"Python {platform.python_version()}", *libraries])


def with_revision(line: str) -> str:
    """Return a line with the state of the code, for what is printed and not kept."""
    words = ("describe", "--always", "--dirty", "--abbrev=10")
    return f"{line}, revision {output_of('git', '-C', str(revision.ROOT), *words).strip()}"


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
