"""Every command of kanalyze, to be run with a capture, many of them in one process.

This file is also a program, for an environment in which nothing but kanalyze is installed:

    python every_command.py LINES.json RESULTS.json

LINES.json has a list of ``[arguments, standard input]``, RESULTS.json what :func:`run` returns for
each.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COMMANDS = {
    "report": "report {capture} --html {out}.html --json {out}.json",
    "report, few": "report {capture} --errors --format md",
    "requests": "requests {capture}",
    "requests, csv": "requests {capture} --format csv",
    "requests, jsonl": "requests {capture} -o {out}.jsonl",
    "requests, parquet": "requests {capture} -o {out}.parquet",
    "records": "records {capture} --values",
    "records, parquet": "records {capture} -o {out}.parquet",
    "decode": "decode {capture}",
    "decode, text": "decode {capture} --format text",
    "connections": "connections {capture}",
    "connections, csv": "connections {capture} -o {out}.csv",
    "anomalies": "anomalies {capture}",
    "anomalies, jsonl": "anomalies {capture} -o {out}.jsonl",
    "save": "save {capture} -o {out}.duckdb",
    "sql": "sql {capture} --query top_producers",
    "sql, own": "sql {capture} 'SELECT count(*) FROM requests JOIN partitions USING (connection)'",
    "flows": "flows {capture} --by client_ip,topic,broker_ip",
    "compare": "compare {capture} {capture}",
    "extract": "extract {capture} -o {out}.pcapng",
    "anonymize": "anonymize {capture} -o {out}.pcapng",
    "live, jsonl": "live - --format jsonl",
    "live, rows": "live - --format rows",
    "batch": "batch {capture} --out {out} --engine process",
    "protocol": "protocol Fetch",
    "completion": "completion bash",
}
"""Each command, with its outputs, as a shell would be given it."""


class Line(NamedTuple):
    """A command line."""

    arguments: list[str]
    standard_input: str
    """The path of the file that it reads."""


class Result(NamedTuple):
    """How a command ended."""

    status: int | str
    """The exit status, or the traceback of an exception that nobody caught."""
    errors: str
    """What it wrote to standard error."""
    output_bytes: int
    """How much it wrote to standard output."""


def line_of(name: str, capture: Path, out: Path, *more: str) -> Line:
    """Return a command line of :data:`COMMANDS`.

    Args:
        name: the key.
        capture: what the command reads.
        out: the beginning of the paths of all files that it writes.
        more: more arguments.
    """
    import shlex

    words = [
        word.format(capture=capture, out=out) for word in (*shlex.split(COMMANDS[name]), *more)
    ]
    return Line(words, str(capture) if "-" in words else os.devnull)


def run(lines: Iterable[Line]) -> list[Result]:
    """Run command lines in this process, whose streams they are given."""
    return [_run(Line(*line)) for line in lines]


def _run(line: Line) -> Result:
    from kanalyze.cli.main import main

    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        Path(line.standard_input).open("rb") as given,
    ):
        kept = [os.dup(number) for number in range(3)]
        for number, file in enumerate((given, output, errors)):
            os.dup2(file.fileno(), number)
        streams = sys.stdin, sys.stdout, sys.stderr
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        status: int | str
        try:
            status = main(line.arguments)
        except SystemExit as ended:  # argparse
            status = ended.code if isinstance(ended.code, int) else 1
        except Exception:  # noqa: BLE001 - this is what tests look for
            status = traceback.format_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            sys.stdin, sys.stdout, sys.stderr = streams
            for number, old in enumerate(kept):
                os.dup2(old, number)
                os.close(old)
        errors.seek(0)
        output_bytes = output.seek(0, os.SEEK_END)
        return Result(status, errors.read().decode("utf-8", "replace"), output_bytes)


def _main(arguments: Sequence[str]) -> None:
    lines, results = map(Path, arguments)
    # As in the command itself: threads and memory are set up before anything is imported.
    from kanalyze.cli.main import _set_up_process

    _set_up_process()
    done = run(Line(*line) for line in json.loads(lines.read_text(encoding="utf-8")))
    results.write_text(json.dumps(done), encoding="utf-8")


if __name__ == "__main__":
    _main(sys.argv[1:])
