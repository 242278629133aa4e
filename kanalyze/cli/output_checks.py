"""Checks that a command does not overwrite its own inputs or outputs.

In: arguments. Out: nothing, or a UsageError. This module must not open anything: it compares files
by device and inode. :class:`~kanalyze.export.files.OutputFile` checks that no capture at all is
overwritten.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.common import paths
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

__all__ = ["INPUTS", "OUTPUTS", "check_outputs"]

INPUTS: Final = (
    "captures",
    "a",
    "b",
    "pipe",
    "topic_ids",
    "definitions",
    "queries",
    "keylog",
    "key",
)
"""Arguments that are inputs."""
OUTPUTS: Final = ("output", "json", "html", "save", "write", "out", "checkpoint")
"""Arguments that are outputs."""

_MADE: Final = {
    "extract": "a capture (pcapng)",
    "anonymize": "a capture (pcapng)",
    "save": "a database (DuckDB)",
}
"""What commands write that have but one format."""
_OTHER_ENDINGS: Final = frozenset(
    (".csv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq", ".txt", ".md", ".html")
)
"""Endings of the files of other commands."""
_NOT_FOR_TERMINALS: Final = {"parquet": "Parquet", "html": "HTML"}
"""Formats of commands that have several."""
_REPORT_OF_BATCH: Final = "report.json"
_STANDARD: Final = "-"
_STANDARD_INPUT, _STANDARD_OUTPUT = 0, 1

_File: TypeAlias = tuple[int, int]
"""Device and inode of a file."""


def check_outputs(arguments: argparse.Namespace) -> None:
    """Raise UsageError if an output is an input, by whatever name, or another output.

    Links are followed. Terminals and devices such as ``/dev/null`` may be both. An output must also
    be fit for what is written: no terminal, and no ending of something else.
    """
    _check_files(arguments)
    _check_kind(arguments)


def _check_files(arguments: argparse.Namespace) -> None:
    written = [path for option in OUTPUTS for path in _written(option, arguments)]
    _check_apart(written)
    outputs = {file: path for _, path in written if (file := _file(path)) is not None}
    standard = _descriptor(_STANDARD_OUTPUT)
    if standard is not None:
        outputs.setdefault(standard, "standard output")
    if not outputs:
        return
    for file in _inputs(arguments):
        if file in outputs:
            raise UsageError(f"{outputs[file]}: is also an input: use another output file")


def _check_kind(arguments: argparse.Namespace) -> None:
    """Raise UsageError if the output is a terminal or has an ending for something else."""
    output = getattr(arguments, "output", None)
    made = _MADE.get(arguments.command)
    if output is None:
        return
    if output == _STANDARD:
        if arguments.command == "save":
            return  # it refuses all streams
        written = made or _NOT_FOR_TERMINALS.get(arguments.format)
        if written is not None and sys.stdout.isatty():
            raise UsageError(f"{written} is not for a terminal: use -o FILE, or a pipe")
    elif made is not None and (ending := paths.ending(output)) in _OTHER_ENDINGS:
        raise UsageError(
            f"{output}: {arguments.command} writes {made}, not {ending}: use another ending"
        )


def _written(option: str, arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the files that an option writes, each with the name of the option."""
    value = getattr(arguments, option, None)
    # ``--json`` of ``protocol`` is a flag.
    if not isinstance(value, str) or value == _STANDARD:
        return []
    written = [value]
    if option == "out":
        from pathlib import Path  # imported late: few commands need it

        written.append(str(Path(value) / _REPORT_OF_BATCH))
    return [(f"--{option}", path) for path in written]


def _check_apart(written: Sequence[tuple[str, str]]) -> None:
    option_of_path: dict[tuple[str, str], str] = {}
    for option, path in written:
        folder, name = os.path.split(path)
        place = (os.path.realpath(folder), name)
        before = option_of_path.setdefault(place, option)
        if before != option and _is_replaced(path):
            raise UsageError(f"{before} and {option} would both write {path}: use different files")


def _inputs(arguments: argparse.Namespace) -> Iterator[_File]:
    for option in INPUTS:
        value = getattr(arguments, option, None)
        if option == "key" and value is not None:  # a text, or the name of a file behind "@"
            value = value[1:] if value.startswith("@") else None
        for name in value if isinstance(value, list) else [value]:
            if name == _STANDARD and option in ("captures", "pipe"):
                file = _descriptor(_STANDARD_INPUT)
                yield from () if file is None else (file,)
            elif name is not None:
                from kanalyze.capture.listing import local_files  # imported late: slow

                with suppress(
                    OSError
                ):  # a folder that cannot be listed is reported when it is read
                    files = map(_file, local_files(name))
                    yield from (file for file in files if file is not None)


def _file(path: str) -> _File | None:
    """Return the identity of a file; None if it does not exist or cannot be overwritten."""
    found = paths.stat_of(path)
    return None if found is None else paths.identity_of(found)


def _descriptor(number: int) -> _File | None:
    try:
        return paths.identity_of(os.fstat(number))
    except OSError:
        return None


def _is_replaced(path: str) -> bool:
    """Return whether a file with this path would be replaced or created."""
    return _file(path) is not None or not paths.exists(path)
