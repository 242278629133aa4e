"""kanalyze beside tshark and tcpdump: time, and peak memory, on the same captures.

    python -m benchmarks.compare [--folder FOLDER] [--kind KIND] ... [--rounds N] [--fifty-fold]
                                 [--markdown FILE]

Makes the captures when they are missing (see `benchmarks.captures`), and ones of ten times (of two
kinds fifty times too) by repetition, deleted afterwards unless --keep says otherwise. All commands
run in turn, A B C D A B C D, after one that is not counted and brings the file into the page cache.
Prints tables in Markdown and writes them. Needs tshark and tcpdump; and what `benchmarks.captures`
needs where captures are missing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import captures, programs
from benchmarks.errors import BenchmarkError, need, run_main
from benchmarks.measure import Measured, Run, measure, peak_together
from benchmarks.tables import EMPTY, Result, Table, markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).resolve().parent / "results.md"
FIFTY_FOLD = ("bulk", "small")
MAX_TSHARK_FOLD = 10
"""Beyond, tshark takes many minutes, and more memory than there may be."""
_FILE_HEADER_BYTES = 24


def in_turn(commands: dict[str, list[str]], rounds: int) -> dict[str, Measured]:
    """Run all commands, then all again, and so on."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            runs[name].append(measure(command))
    return {name: Measured.of(some) for name, some in runs.items()}


def compare(name: str, times: int, capture: Path, ports: list[int], rounds: int) -> Table:
    """Measure every command on a capture."""
    print(f"measuring {name}, {times}-fold", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        commands = programs.commands(capture, ports, Path(folder))
        if times > MAX_TSHARK_FOLD:
            del commands[programs.TSHARK]
        measure(programs.tcpdump_command(capture))  # brings the file into the page cache
        measured = in_turn(commands, rounds)
        results = {}
        for command, words in commands.items():
            together_bytes = peak_together(words) if words[0] == programs.KANALYZE else None
            results[command] = Result(measured[command], together_bytes)
    return Table(name, times, capture.stat().st_size, results)


@contextmanager
def repeated(capture: Path, times: int, *, keep: bool) -> Iterator[Path]:
    """Make a capture of this one many times over, and delete it afterwards."""
    target = capture.with_name(f"{capture.stem}-{times}.pcap")
    try:
        captures.make_repeated(capture, times, target)
        yield target
    finally:
        if not keep:
            target.unlink(missing_ok=True)


def start_up(capture: Path, ports: list[int], rounds: int) -> Table:
    """Measure every command on a capture of no packets."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.pcap"
        with capture.open("rb") as file:
            empty.write_bytes(file.read(_FILE_HEADER_BYTES))
        return compare(EMPTY, 1, empty, ports, rounds)


def measure_all(arguments: argparse.Namespace, facts: list[str]) -> Iterator[Table]:
    """Measure on every capture; add to ``facts`` what the commands found there."""
    for number, kind in enumerate(arguments.kind or captures.KINDS):
        capture = captures.capture(kind, arguments.folder)
        ports = programs.broker_ports(capture)
        facts.append(check(capture, ports))
        if number == 0:
            yield start_up(capture, ports, arguments.rounds)
        yield compare(kind, 1, capture, ports, arguments.rounds)
        folds = (10, 50) if arguments.fifty_fold and kind in FIFTY_FOLD else (10,)
        for times in folds:
            with repeated(capture, times, keep=arguments.keep) as longer:
                yield compare(kind, times, longer, ports, arguments.long_rounds)


def check(capture: Path, ports: list[int]) -> str:
    """Say how many messages both find; raise when tshark did not look for them."""
    ours = programs.messages_of_kanalyze(capture)
    theirs = programs.messages_of_tshark(capture, ports)
    programs.check_same_work(capture, ours, theirs)
    return f"{capture.name}: {ours:,} Kafka messages of kanalyze's, {theirs:,} of tshark's"


def main() -> None:
    """Measure what the command line asks for; print and write the tables."""
    parser = argparse.ArgumentParser(description="kanalyze beside tshark and tcpdump.")
    parser.add_argument("--folder", type=Path, default=captures.FOLDER, help="of the captures")
    parser.add_argument("--kind", action="append", choices=captures.KINDS, help="default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long-rounds", type=int, default=3, help="of the repeated captures")
    parser.add_argument("--fifty-fold", action="store_true", help="needs 9 GB of disk")
    parser.add_argument("--keep", action="store_true", help="keep the repeated captures")
    parser.add_argument("--markdown", type=Path, default=RESULTS, help="where to write the tables")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.long_rounds) < 1:
        raise BenchmarkError("there is nothing to tell of no rounds")
    need(programs.TSHARK, programs.TCPDUMP)
    # An installed package has its bytecode; here the first run writes it, before any is measured.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    tables: list[Table] = []
    facts = [programs.versions()]
    for table in measure_all(arguments, facts):
        tables.append(table)
        # All that there is so far: it takes long, and may be interrupted.
        arguments.markdown.write_text(markdown(tables, facts))
    print(arguments.markdown.read_text(), end="")


if __name__ == "__main__":
    run_main(main)
