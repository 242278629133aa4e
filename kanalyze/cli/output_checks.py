"""That no command writes over what it reads: one rule for all commands and all their options.

In: arguments. Out: nothing, or a UsageError of one line. This module must not open anything: files
are told apart by device and inode, as the system knows them. That nothing is written over a
capture, whoever reads it, :class:`~kanalyze.export.files.OutputFile` sees to.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.common import paths
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

__all__ = ["INPUTS", "OUTPUTS", "check_outputs"]

INPUTS: Final = ("captures", "pipe", "topic_ids", "definitions")
"""Arguments that name what is read."""
OUTPUTS: Final = ("output", "json", "save", "write", "out", "checkpoint")
"""Arguments that name what is written."""

_REPORT_OF_BATCH: Final = "report.json"
_STANDARD: Final = "-"
_STANDARD_INPUT, _STANDARD_OUTPUT = 0, 1

_File: TypeAlias = tuple[int, int]
"""Its device and its inode."""


def check_outputs(arguments: argparse.Namespace) -> None:
    """Raise UsageError where an output is an input, whatever name it has there, or another output.

    Links are followed. Terminals and devices such as ``/dev/null`` may be both.
    """
    places = [place for option in OUTPUTS for place in _places(option, arguments)]
    _check_apart(places)
    outputs = {found: path for _, path in places if (found := _file(path)) is not None}
    standard = _descriptor(_STANDARD_OUTPUT)
    if standard is not None:
        outputs.setdefault(standard, "standard output")
    if not outputs:
        return
    for found in _inputs(arguments):
        if found in outputs:
            raise UsageError(f"{outputs[found]}: is an input too, and would be written over")


def _places(option: str, arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the files that an option has written, each with the option."""
    given = getattr(arguments, option, None)
    # Of ``protocol`` one is a flag.
    if not isinstance(given, str) or given == _STANDARD:
        return []
    written = [given]
    if option == "out":
        from pathlib import Path  # not for most commands

        written.append(str(Path(given) / _REPORT_OF_BATCH))
    return [(f"--{option}", path) for path in written]


def _check_apart(places: Sequence[tuple[str, str]]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for option, path in places:
        folder, name = os.path.split(path)
        place = (os.path.realpath(folder), name)
        before = seen.setdefault(place, option)
        if before != option and _is_replaced(path):
            raise UsageError(f"{before} and {option} would both write {path}")


def _inputs(arguments: argparse.Namespace) -> Iterator[_File]:
    for option in INPUTS:
        given = getattr(arguments, option, None)
        for each in given if isinstance(given, list) else [given]:
            if each == _STANDARD and option in ("captures", "pipe"):
                found = _descriptor(_STANDARD_INPUT)
                yield from () if found is None else (found,)
            elif each is not None:
                from kanalyze.capture.listing import local_files  # slow, not for who reads nothing

                with suppress(OSError):  # a folder that cannot be listed: whoever reads it tells
                    files = map(_file, local_files(each))
                    yield from (found for found in files if found is not None)


def _file(path: str) -> _File | None:
    """Return which file it is; None where there is none, or none that could be lost."""
    found = paths.stat_of(path)
    return None if found is None else _identity(found)


def _descriptor(number: int) -> _File | None:
    try:
        return _identity(os.fstat(number))
    except OSError:
        return None


def _identity(found: os.stat_result) -> _File | None:
    can_be_lost = stat.S_ISREG(found.st_mode) or stat.S_ISFIFO(found.st_mode)
    return (found.st_dev, found.st_ino) if can_be_lost else None


def _is_replaced(path: str) -> bool:
    """Tell whether whoever writes there takes the place of what is there, or makes it."""
    return _file(path) is not None or not paths.exists(path)
