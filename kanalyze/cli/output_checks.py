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

_SINGLE_FORMATS: Final = {
    "extract": "a capture (pcapng)",
    "anonymize": "a capture (pcapng)",
    "save": "a database (DuckDB)",
}
"""The format of each command that has only one."""
_OTHER_ENDINGS: Final = frozenset(
    (".csv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq", ".txt", ".md", ".html")
)
"""Endings of the files of other commands."""
_NOT_FOR_TERMINALS: Final = {"parquet": "Parquet", "html": "HTML"}
"""Formats that are not text, of commands that have several formats."""
_REPORT_OF_BATCH: Final = "report.json"
_STANDARD: Final = "-"
_STANDARD_INPUT, _STANDARD_OUTPUT = 0, 1

_File: TypeAlias = tuple[int, int]
"""Device and inode of a file."""


def check_outputs(arguments: argparse.Namespace) -> None:
    """Raise UsageError if an output is also an input or another output, by any name.

    Links are followed. Terminals and devices such as ``/dev/null`` may be both. Also raise it if
    a format that is not text would be written to a terminal, or to a file with another ending.
    """
    _check_files(arguments)
    _check_kind(arguments)


def _check_files(arguments: argparse.Namespace) -> None:
    written = [path for option in OUTPUTS for path in _written(option, arguments)]
    _check_distinct(written)
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
    single_format = _SINGLE_FORMATS.get(arguments.command)
    if output is None:
        return
    if output == _STANDARD:
        if arguments.command == "save":
            return  # the command itself refuses all streams
        binary_format = single_format or _NOT_FOR_TERMINALS.get(arguments.format)
        if binary_format is not None and sys.stdout.isatty():
            raise UsageError(f"{binary_format} is not for a terminal: use -o FILE, or a pipe")
    elif single_format is not None and (ending := paths.ending(output)) in _OTHER_ENDINGS:
        raise UsageError(
            f"{output}: {arguments.command} writes {single_format}, not {ending}: "
            "use another ending"
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


def _check_distinct(written: Sequence[tuple[str, str]]) -> None:
    """Raise UsageError if two options write the same file."""
    option_of_path: dict[tuple[str, str], str] = {}
    for option, path in written:
        folder, name = os.path.split(path)
        first = option_of_path.setdefault((os.path.realpath(folder), name), option)
        if first != option and _is_replaced(path):
            raise UsageError(f"{first} and {option} would both write {path}: use different files")


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

                # A folder that cannot be listed is reported when it is read.
                with suppress(OSError):
                    files = map(_file, local_files(name))
                    yield from (file for file in files if file is not None)


def _file(path: str) -> _File | None:
    """Return the identity of a file; None if it does not exist or cannot be overwritten."""
    status = paths.stat_of(path)
    return None if status is None else paths.identity_of(status)


def _descriptor(number: int) -> _File | None:
    try:
        return paths.identity_of(os.fstat(number))
    except OSError:
        return None


def _is_replaced(path: str) -> bool:
    """Return whether a file with this path would be replaced or created."""
    return _file(path) is not None or not paths.exists(path)
