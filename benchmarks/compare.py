"""kanalyze beside tshark and tcpdump: time, and peak memory, on the same captures.

    python -m benchmarks.compare [--folder FOLDER] [--kind KIND] ... [--quick]
                                 [--rounds N] [--long-rounds N] [--json FILE]

Makes the captures when they are missing (see `benchmarks.captures`), and ones of ten times by
repetition, deleted afterwards unless --keep says otherwise. All commands run in turn, A B C D
A B C D, after one that is not counted and brings the file into the page cache.

What is measured is a revision: nothing in `kanalyze/` may be changed, and what is not compiled as
it is, is compiled first. Figures go into `results.json` as they come, and from there into all pages
that state one (`benchmarks.publish`). With --kind they are added to those of the same code and
machine, in place of older ones; others are refused. Without it all figures are made again.

--quick is to see that all works: short captures alone, one round, into a file of its own; no page
changes. Needs tshark and tcpdump; and what `benchmarks.captures` needs where captures are missing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import captures, figures, programs, publish, revision, tables
from benchmarks.errors import BenchmarkError, need, run_main
from benchmarks.figures import EMPTY, Figures, Table
from benchmarks.measure import Measured, Run, least_peak_bytes, measure
from benchmarks.process_tree import measure_tree
from benchmarks.programs import CSV, JSON_LINES, REPORT, REQUESTS, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMES = 10
OF_ROWS = (REQUESTS, REPORT, CSV, JSON_LINES)
ALL_TEN_FOLD = ("java",)
"""Of the others, the longest commands read the short captures alone."""
QUICK = captures.FOLDER / "quick.json"
ALL_AT_WORK = Source(
    revision.ROOT / "captures" / "tls" / "tls-ecdsa.pcap",
    [],
    revision.ROOT / "captures" / "tls" / "tls-ecdsa.keys",
)
"""What is imported to read it is all that may be imported to read a capture of Kafka."""
_FILE_HEADER_BYTES = 24


class Rounds(NamedTuple):
    """How often each command runs."""

    short: int
    long: int
    """On repeated captures."""
    with_memory: bool
    """And once more, for what all its processes take together."""


def in_turn(commands: dict[str, list[str]], rounds: int, folder: Path) -> dict[str, list[Run]]:
    """Run all commands, then all again, and so on; what they write goes into an empty folder."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            empty(folder)  # a capture that is there is not overwritten
            runs[name].append(measure(command))
    return runs


def empty(folder: Path) -> None:
    """Delete the files of a folder."""
    for file in folder.iterdir():
        file.unlink()


def compare(name: str, times: int, source: Source, rounds: Rounds) -> Table:
    """Measure every command on a capture."""
    print(f"measuring {name}, {times}-fold", file=sys.stderr, flush=True)
    is_short = times == 1 or name in ALL_TEN_FOLD
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        names = programs.COMMANDS if is_short else OF_ROWS
        commands = programs.commands(source, folder, names)
        if name == EMPTY:
            commands |= programs.START_COMMANDS
        measure(programs.tcpdump_command(source.capture))  # brings the file into the page cache
        runs = in_turn(commands, rounds.short if times == 1 else rounds.long, folder)
        together: dict[str, int | None] = dict.fromkeys(commands)
        if rounds.with_memory:
            together |= peaks_together(commands, folder)
        results = {each: Measured.of(runs[each], together[each]) for each in commands}
    file_bytes = source.capture.stat().st_size
    date = datetime.now(UTC).date().isoformat()
    messages = check(source) if times == 1 and name != EMPTY else None
    return Table(name, times, date, file_bytes, messages, least_peak_bytes(), results)


def peaks_together(commands: dict[str, list[str]], folder: Path) -> dict[str, int | None]:
    """Return the peaks of commands of kanalyze that may have several processes."""
    peaks: dict[str, int | None] = {}
    for name, words in commands.items():
        if words[0] == programs.KANALYZE:
            empty(folder)
            peaks[name] = measure_tree(words).together_bytes
    return peaks


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


def start_up(capture: Path, rounds: Rounds) -> Table:
    """Measure every command on a capture of no packets."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.pcap"
        with capture.open("rb") as file:
            empty.write_bytes(file.read(_FILE_HEADER_BYTES))
        return compare(EMPTY, 1, Source(empty, []), rounds)


def measure_all(arguments: argparse.Namespace) -> Iterator[Table]:
    """Measure on every capture."""
    rounds = arguments.all_rounds
    for number, kind in enumerate(arguments.kind or captures.KINDS):
        capture = captures.capture(kind, arguments.folder)
        keys = captures.keys_of(kind, arguments.folder)
        source = Source(capture, programs.broker_ports(capture), keys)
        if number == 0:
            yield start_up(capture, rounds)
        yield compare(kind, 1, source, rounds)
        if not arguments.quick:
            with repeated(capture, TIMES, keep=arguments.keep) as longer:
                yield compare(kind, TIMES, source._replace(capture=longer), rounds)


def check(source: Source) -> tuple[int, int]:
    """Return how many messages both find; raise when tshark did not look for them."""
    ours, theirs = programs.messages_of_kanalyze(source), programs.messages_of_tshark(source)
    programs.check_same_work(source.capture, ours, theirs)
    return ours, theirs


def reads() -> dict[str, list[str]]:
    """Return which rooms of the package each command of kanalyze imports."""
    found = {programs.HELP: programs.rooms_read(programs.START_COMMANDS[programs.HELP])}
    for name in programs.COMMANDS:
        with tempfile.TemporaryDirectory() as folder:
            # What reads no key log reads the capture as it is.
            sources = (ALL_AT_WORK, ALL_AT_WORK._replace(keys=None))
            of_sources = (
                programs.kanalyze_commands(each, Path(folder), [name]) for each in sources
            )
            [words] = next(filter(None, of_sources)).values()
            found[name] = programs.rooms_read(words)
    return found


def begin(arguments: argparse.Namespace) -> Figures:
    """Return what figures are added to; raise where they would be of other code."""
    stamp, machine = revision.stamp(), programs.versions()
    if arguments.kind and arguments.json.exists() and not arguments.quick:
        begun, _ = figures.load(arguments.json)
        begun.check(stamp, machine)
        return begun
    return Figures(stamp, machine)


def main() -> None:
    """Measure what the command line asks for; write the figures, and what states them."""
    kinds = (*captures.KINDS, *captures.MORE_OF_TLS)
    parser = argparse.ArgumentParser(description="kanalyze beside tshark and tcpdump.")
    parser.add_argument("--folder", type=Path, default=captures.FOLDER, help="of the captures")
    parser.add_argument("--kind", action="append", choices=kinds, help="default: all")
    parser.add_argument("--quick", action="store_true", help="short captures, once; no page")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long-rounds", type=int, default=3, help="of the repeated captures")
    parser.add_argument("--keep", action="store_true", help="keep the repeated captures")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.long_rounds) < 1:
        raise BenchmarkError("there is nothing to tell of no rounds")
    arguments.all_rounds = Rounds(arguments.rounds, arguments.long_rounds, with_memory=True)
    if arguments.quick:
        arguments.all_rounds = Rounds(1, 0, with_memory=False)
    arguments.json = arguments.json or (QUICK if arguments.quick else figures.RESULTS)
    need(programs.TSHARK, programs.TCPDUMP)
    # An installed package has its bytecode; here the first run writes it, before any is measured.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    measured = begin(arguments)
    printed = figures.load()[1]
    for table in measure_all(arguments):
        if table.name == EMPTY:
            measured.reads = reads()
        if measured.stamp.changed(now := revision.rooms()):
            raise BenchmarkError(f"{table.title} is of code that changed while it was measured")
        # All that there is so far: it takes long, and may be interrupted.
        measured.put(table)
        figures.save(measured, printed, arguments.json)
    print(tables.markdown(measured, now), end="")
    if arguments.json == figures.RESULTS:
        publish.write()


if __name__ == "__main__":
    run_main(main)
