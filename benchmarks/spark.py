"""`kanalyze batch` with both engines, one process and tshark, on folders of rotated captures.

    python -m benchmarks.spark [--folder FOLDER] [--times N ...] [--masters URL ...]
                               [--sets NAME ...] [--markdown FILE]

Repeats captures of `benchmarks.captures`, which are made where they are missing, as a rotating
tcpdump would have written them, and deletes them afterwards, one set after the other; fifty-fold
takes 9 GB of disk. Every command runs once, in turn: `kanalyze batch` in processes and on each
master, with as few tasks as it chooses, and with so many that segments are sent from task to task;
`kanalyze requests`, which makes the same rows in one process; `kanalyze report`, which makes the
same report; and tshark by hand, over one file after another and over as many at once as there are
cores (only up to ten-fold, and on one set of each kind). The number of rows has to be the same.
Prints tables in Markdown and writes them. Needs Linux, Java and tshark.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import captures, event_log, programs
from benchmarks.errors import BenchmarkError, need, output_of, run_main
from benchmarks.process_tree import measure_tree
from benchmarks.spark_tables import Folder, Result, markdown
from benchmarks.spark_tasks import Took

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RESULTS = Path(__file__).resolve().parent / "results-spark.md"
EMPTY = "empty"
MAX_TSHARK_TIMES = 10
_FILE_HEADER_BYTES = 24
_COUNT = "import sys, pyarrow.dataset as d; print(d.dataset(sys.argv[1]).count_rows())"
_REQUESTS = "kanalyze requests --jobs 1"
_REPORT = "kanalyze report --jobs 1"
_WAYS = ((), ("--buckets", "17"))
"""Each task that makes rows reads all captures; and segments are sent to it."""


class Set(NamedTuple):
    """One way to make captures to measure on."""

    kind: str
    """As in `benchmarks.captures`."""
    file_megabytes: int
    with_tshark: bool


SETS = {
    "bulk-64": Set("bulk", file_megabytes=64, with_tshark=True),
    "bulk-256": Set("bulk", file_megabytes=256, with_tshark=False),
    "small-64": Set("small", file_megabytes=64, with_tshark=True),
    # Connections that live through many files, as those of clients that stay do.
    "java-8": Set("java", file_megabytes=8, with_tshark=True),
}


def cores_of(master: str) -> int:
    """Return how many cores a local master has; raises BenchmarkError for any other."""
    found = re.fullmatch(r"local\[(\d{1,3}|\*)\]", master)
    if found is None or found[1] == "0":
        raise BenchmarkError(f"{master}: not a master of this machine, such as local[2]")
    return os.cpu_count() or 1 if found[1] == "*" else int(found[1])


def batch_command(folder: Path, out: Path, master: str, log: Path) -> list[str]:
    """Return the command that makes tables of a folder of captures with Spark."""
    command = [programs.KANALYZE, "batch", str(folder), "--out", str(out), "--master", master]
    for key, value in event_log.conf(log).items():
        command += ["--conf", f"{key}={value}"]
    return command


def tshark_commands(files: Sequence[Path], ports: list[int]) -> dict[str, tuple[list[str], int]]:
    """Return the commands that have tshark dissect files, and the cores that each takes."""
    words = shlex.join(programs.tshark_command(Path("{}"), ports))
    files_by_line = f"printf '%s\\n' {shlex.join(map(str, files))}"
    found = {}
    for cores in sorted({1, os.cpu_count() or 1}):
        line = f"{files_by_line} | xargs -d '\\n' -P {cores} -I {{}} {words}"
        found[f"tshark, {cores} at once"] = (["sh", "-c", line], cores)
    return found


def count_rows(table: Path) -> int:
    """Return how many rows are in Parquet files."""
    return int(output_of(sys.executable, "-c", _COUNT, str(table)))


def run_batch(folder: Path, master: str, scratch: Path, more: Sequence[str]) -> Result:
    """Measure `kanalyze batch`, with more arguments."""
    out, log = scratch / "out", scratch / "log"
    log.mkdir()
    try:
        # Spark's own files go there too, and are deleted though it were killed.
        local = {"SPARK_LOCAL_DIRS": str(scratch / "local")}
        run = measure_tree([*batch_command(folder, out, master, log), *more], local)
        table = out / "requests"
        rows = count_rows(table) if table.exists() else 0
        return Result(run, cores_of(master), rows, event_log.stages_in(log))
    finally:
        for made in (out, log, scratch / "local"):
            shutil.rmtree(made, ignore_errors=True)


def run_processes(folder: Path, scratch: Path, more: Sequence[str]) -> Result:
    """Measure `kanalyze batch --engine process`, with as many processes as there are cores."""
    out = scratch / "out"
    words = ["batch", str(folder), "--out", str(out), "--engine", "process", *more]
    try:
        run = measure_tree([programs.KANALYZE, *words])
        table = out / "requests"
        return Result(run, os.cpu_count() or 1, count_rows(table) if table.exists() else 0)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def run_requests(folder: Path, scratch: Path) -> Result:
    """Measure one process that makes the same rows."""
    rows = scratch / "rows.parquet"
    words = ["requests", str(folder), "--jobs", "1", "-o", str(rows)]
    run = measure_tree([programs.KANALYZE, *words])
    return Result(run, 1, count_rows(rows))


def run_report(folder: Path) -> Result:
    """Measure one process that makes the report, without writing tables."""
    return Result(measure_tree([programs.KANALYZE, "report", str(folder), "--jobs", "1"]), 1)


def measure(name: str, folder: Path, masters: Sequence[str], ports: list[int] | None) -> Folder:
    """Measure all commands on a folder; tshark where there are ports for it.

    Raises:
        BenchmarkError: they do not find the same number of rows.
    """
    print(f"measuring {name}", file=sys.stderr, flush=True)
    files = sorted(folder.iterdir())
    size = sum(file.stat().st_size for file in files)
    with tempfile.TemporaryDirectory(dir=folder.parent) as text:
        scratch = Path(text)
        # The first one brings the files into the page cache, as far as making them did not.
        results = {_REQUESTS: run_requests(folder, scratch)}
        for more in _WAYS:
            options = " ".join(("", *more))
            processes = run_processes(folder, scratch, more)
            results[f"kanalyze batch --engine process{options}"] = processes
            for master in masters:
                on_spark = run_batch(folder, master, scratch, more)
                results[f"kanalyze batch {master}{options}"] = on_spark
    counts = {command: result.rows for command, result in results.items()}
    if len(set(counts.values())) > 1:
        raise BenchmarkError(f"{name}: not the same rows: {counts}")
    results[_REPORT] = run_report(folder)
    if ports is not None:
        for command, (words, cores) in tshark_commands(files, ports).items():
            results[command] = Result(measure_tree(words), cores)
    return Folder(name, size, len(files), results)


@contextmanager
def rotated(source: Path, times: int, megabytes: int, folder: Path) -> Iterator[Path]:
    """Make rotated files of a capture many times over, and delete them afterwards."""
    with tempfile.TemporaryDirectory(dir=folder) as text:
        target = Path(text).resolve() / "captures"
        words = [str(source.resolve()), str(times), str(megabytes), str(target)]
        output_of(sys.executable, "-m", "benchmarks.rotate", *words)
        yield target


def start_up(capture: Path, masters: Sequence[str]) -> Folder:
    """Measure every command on a capture of no packets."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text) / "captures"
        folder.mkdir()
        with capture.open("rb") as file:
            (folder / "empty.pcap").write_bytes(file.read(_FILE_HEADER_BYTES))
        return measure(EMPTY, folder, masters, None)


def measure_set(one: Set, arguments: argparse.Namespace) -> Iterator[Folder]:
    """Measure on all lengths of a set."""
    source = captures.capture(one.kind, arguments.folder)
    for times in arguments.times:
        name = f"{one.kind} {times}-fold"
        is_for_tshark = one.with_tshark and times <= MAX_TSHARK_TIMES
        ports = programs.broker_ports(source) if is_for_tshark else None
        with rotated(source, times, one.file_megabytes, arguments.folder) as folder:
            title = f"{name}, {one.file_megabytes} MB each"
            yield measure(title, folder, arguments.masters, ports)


def tasks_of(sets: Sequence[Set], folder: Path) -> dict[str, Took]:
    """Measure the tasks alone, on each capture that is repeated."""
    found: dict[str, Took] = {}
    for kind in dict.fromkeys(one.kind for one in sets):
        source = captures.capture(kind, folder)
        told = output_of(sys.executable, "-m", "benchmarks.spark_tasks", str(source))
        found[kind] = Took(**json.loads(told))
    return found


def versions() -> str:
    """Return one line on the machine and the versions of all that takes part."""
    java = output_of("java", "--version").splitlines()[0]
    return f"{programs.with_revision(programs.versions())}, pyspark {version('pyspark')}, {java}"


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments; raises BenchmarkError where they make no sense."""
    parser = argparse.ArgumentParser(description="kanalyze batch on rotated captures.")
    parser.add_argument("--folder", type=Path, default=captures.FOLDER, help="of the captures")
    parser.add_argument("--times", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--masters", nargs="+", default=["local[1]", "local[2]"])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--markdown", type=Path, default=RESULTS, help="where to write the tables")
    arguments = parser.parse_args(words)
    if min(arguments.times) < 1:
        raise BenchmarkError("there is nothing to tell of no captures")
    for master in arguments.masters:
        cores_of(master)
    return arguments


def main() -> None:
    """Measure what the command line asks for; print and write the tables."""
    arguments = parse()
    need(programs.TSHARK, programs.TCPDUMP, "java")
    # An installed package has its bytecode; here the first run writes it, before any is measured.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sets = [SETS[name] for name in arguments.sets]
    capture = captures.capture(sets[0].kind, arguments.folder)
    facts = [versions()]
    tasks = tasks_of(sets, arguments.folder)
    folders = [start_up(capture, arguments.masters)]
    for one in sets:
        for folder in measure_set(one, arguments):
            folders.append(folder)
            # All that there is so far: it takes long, and may be interrupted.
            arguments.markdown.write_text(markdown(folders, tasks, facts))
    print(arguments.markdown.read_text(), end="")


if __name__ == "__main__":
    run_main(main)
