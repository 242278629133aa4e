"""What ``kanalyze live`` is asked for that cannot be done, or that nothing would come of.

In: arguments. Out: nothing, or a UsageError of one line. This module must not open anything.

What is left out silently is found out when it is missed: who says how large files are to be, and
not where they go, waits for files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT

if TYPE_CHECKING:
    import argparse

__all__ = ["check_arguments"]

_KINDS: Final = {"write": "folder", "save": "file", "json": "file"}
_OF_WRITE: Final = ("write_every", "write_size", "write_files")
_OF_METRICS: Final = ("metrics_host",)
_OF_SAVE: Final = ("save_errors", "save_slower_than", "save_size", "save_files")
_MOST_BUFFER_BYTES: Final = 4 << 30
"""The kernel takes a minute to find out that it has no terabyte, and then takes what there is."""


def check_arguments(arguments: argparse.Namespace, chosen: str) -> None:
    """Raise UsageError where something makes no sense; ``chosen`` is the format of what is shown.

    What each argument is worth by itself is known where it is parsed.
    """
    _check_places(arguments)
    _check_base(arguments, _OF_WRITE, "write", "says where rows are kept")
    _check_base(arguments, _OF_METRICS, "metrics", "says where they are asked for")
    _check_base(arguments, _OF_SAVE, "save", "says where packets are kept")
    if arguments.write_every is not None and arguments.write_every < 1:
        raise UsageError("--write-every: 1 second or more")
    if arguments.interval is not None and chosen != "jsonl":
        raise UsageError(f"--interval is of --format jsonl, not of {chosen}")
    if arguments.json == STANDARD_OUTPUT and chosen != "view":
        # Lines stand alone there.
        raise UsageError(f"--json - and lines ({chosen}) would both be on standard output")
    if not 0 < arguments.buffer <= _MOST_BUFFER_BYTES:
        raise UsageError("--buffer: more than 0, and up to 4G")


def _check_places(arguments: argparse.Namespace) -> None:
    for name, kind in _KINDS.items():
        place = getattr(arguments, name)
        is_stream = place == STANDARD_OUTPUT and name != "json"
        # An empty one is a variable of the shell that was not set.
        if place == "" or is_stream:
            raise UsageError(f"--{name}: not the name of a {kind}: {place!r}")


def _check_base(
    arguments: argparse.Namespace, names: tuple[str, ...], base: str, does: str
) -> None:
    if getattr(arguments, base) is not None:
        return
    for name in names:
        if getattr(arguments, name) not in (None, False):
            raise UsageError(f"--{name.replace('_', '-')} needs --{base}, which {does}")
