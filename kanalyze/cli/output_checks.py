"""Checks that a command does not overwrite its own inputs or outputs.

In: arguments. Out: nothing, or a UsageError. This module must not open anything: it compares files
by device and inode. :class:`~kanalyze.export.files.OutputFile` checks that no capture at all is
overwritten.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kanalyze.cli.console import print_message
from kanalyze.common import paths
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from kanalyze.common.paths import FileIdentity

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
    "names",
    "schemas",
    "folder",
    "price",
)
"""Arguments that are inputs."""
OUTPUTS: Final = ("output", "json", "html", "save", "write", "out", "checkpoint", "scratch")
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
_CAPTURES: Final = frozenset(("captures", "a", "b"))
"""Arguments that are captures: what a folder or a glob names is left out if it is written."""


def check_outputs(arguments: argparse.Namespace) -> None:
    """Raise UsageError if an output is also an input or another output, by any name.

    A message tells of outputs in a folder, or that fit a glob, which are left out of the captures.
    Links are followed. Terminals and devices such as ``/dev/null`` may be both. Also raise it if
    a format that is not text would be written to a terminal, or to a file with another ending.
    """
    _check_files(arguments)
    _check_kind(arguments)


def _check_files(arguments: argparse.Namespace) -> None:
    written = [path for option in OUTPUTS for path in _written(option, arguments)]
    _check_distinct(written)
    outputs = _outputs(written)
    if not outputs:
        return
    left_out: dict[str, None] = {}
    for file, other_name in _inputs(arguments):
        if file not in outputs:
            continue
        if other_name is None:
            raise UsageError(f"{outputs[file]}: is also an input: use another output file")
        left_out[other_name] = None
    for name in left_out:
        print_message(f"left out: {name}: this command writes it")


def output_files(arguments: argparse.Namespace) -> frozenset[FileIdentity]:
    """Return the files that a command writes, which are there already."""
    return frozenset(_outputs([each for option in OUTPUTS for each in _written(option, arguments)]))


def _outputs(written: Sequence[tuple[str, str]]) -> dict[FileIdentity, str]:
    """Return the names of the files that are written, standard output among them."""
    files = ((paths.file_identity(path), path) for _, path in written)
    outputs = {file: path for file, path in files if file is not None}
    standard = _descriptor(_STANDARD_OUTPUT)
    if standard is not None:
        outputs.setdefault(standard, "standard output")
    return outputs


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


def _inputs(arguments: argparse.Namespace) -> Iterator[tuple[FileIdentity, str | None]]:
    """Yield the files that are read, with the name of those that may be left out."""
    for option in INPUTS:
        value = getattr(arguments, option, None)
        if option == "key" and value is not None:  # a text, or the name of a file behind "@"
            value = value[1:] if value.startswith("@") else None
        for name in value if isinstance(value, list) else [value]:
            if name == _STANDARD and option in ("captures", "pipe"):
                file = _descriptor(_STANDARD_INPUT)
                yield from () if file is None else ((file, None),)
            elif name is not None:
                from kanalyze.capture.inputs import has_capture_name, local_files  # slow

                # A folder that cannot be listed is reported when it is read.
                with suppress(OSError):
                    named = local_files(name)
                    is_listed = option in _CAPTURES and not named.is_explicit
                    for path in named.paths:
                        file = paths.file_identity(path)
                        # The tasks of a batch read all that has the name of a capture.
                        is_read = arguments.command == "batch" and has_capture_name(path)
                        if file is not None:
                            yield file, path if is_listed and not is_read else None


def _descriptor(number: int) -> FileIdentity | None:
    try:
        return paths.identity_of(os.fstat(number))
    except OSError:
        return None


def _is_replaced(path: str) -> bool:
    """Return true if a file with this path would be replaced or created."""
    return paths.file_identity(path) is not None or not paths.exists(path)
