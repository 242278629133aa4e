"""The options that only streams have: what their texts mean.

In: options as Spark hands them over. Out: :class:`StreamOptions`, and the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["STREAM_OPTIONS", "StreamOptions", "parse_stream_options", "table_options"]

STREAM_OPTIONS: Final = ("stateLocation", "settleSeconds", "maxFilesPerTrigger")
_NAMES: Final = frozenset(name.lower() for name in STREAM_OPTIONS)
_DEFAULT_SETTLE_S: Final = 60.0
_MAX_SETTLE_S: Final = 86_400.0
_MAX_FILES: Final = 1_000_000


class StreamOptions(NamedTuple):
    """The options that only streams have."""

    state_location: str
    """A path or a URL that the driver and all executors reach, of one query alone."""
    settle_s: float
    """A file that was not written to for this time is complete, even if none came after it."""
    most_files: int | None
    """Limit of the captures in one batch; None for no limit."""


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are not only for streams."""
    return {name: text for name, text in options.items() if name.lower() not in _NAMES}


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Parse the options of a stream; others are ignored.

    Raises:
        UsageError: an option has an invalid value, or ``stateLocation`` is missing.
    """
    texts = {name.lower(): text.strip() for name, text in options.items()}
    location = texts.get("statelocation")
    if not location:
        raise UsageError("option stateLocation: needed, a folder that all executors reach")
    return StreamOptions(
        location,
        _seconds(texts.get("settleseconds", f"{_DEFAULT_SETTLE_S}")),
        _files(texts.get("maxfilespertrigger")),
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if 0 <= value <= _MAX_SETTLE_S:
        return value
    raise UsageError(f"option settleSeconds: a number from 0 to {_MAX_SETTLE_S:.0f}, not {text!r}")


def _files(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit() and 0 < int(text) <= _MAX_FILES:
        return int(text)
    raise UsageError(f"option maxFilesPerTrigger: a number from 1 to {_MAX_FILES}, not {text!r}")
