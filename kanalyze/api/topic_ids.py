"""Reads files with names of topics by topic id.

In: a path or a URL. Out: names by 16-byte id.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from kanalyze.common import paths
from kanalyze.common.argument_values import opening
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_topic_ids"]

_LARGEST_FILE_BYTES = 256 * 1024 * 1024


def read_topic_ids(path: str | Path) -> dict[bytes, str]:
    """Return the names of topics in a file, by 16-byte id.

    The file has lines ``ID NAME``, or is a JSON object; ids are in Kafka's base64 or UUIDs (see
    :func:`~kanalyze.tables.requests.topic_names.parse_topic_ids`).

    Raises:
        UsageError: the file cannot be read, or is invalid; the text names it.
    """
    with opening(path), io.TextIOWrapper(paths.opened(path), encoding="utf-8") as file:
        try:
            text = file.read(_LARGEST_FILE_BYTES)
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: not UTF-8 text") from error
    # Imported late: only needed if there is a file.
    from kanalyze.tables.requests.topic_names import parse_topic_ids

    try:
        return parse_topic_ids(text)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
