"""Says in words why a message could not be read to its end.

In: definitions, and bytes that a decoder refused. Out: short texts for people, never bytes from the
wire.

Decoders are made for speed: they know what is wrong, but not where. The slow interpreter finds the
field.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kanalyze.kafka.schema.schema_ast import MessageSpec

__all__ = [
    "LEFT_OVER",
    "NOT_ALL_THERE",
    "UNKNOWN_API",
    "json_path",
    "locate_failure",
    "unknown_version",
]

LEFT_OVER: Final = "bytes after the message"
NOT_ALL_THERE: Final = "the capture does not hold all its bytes"
UNKNOWN_API: Final = "no definition has this API"


def unknown_version(definition: MessageSpec) -> str:
    """Say that a message is not defined in a version."""
    return f"known are the versions {definition.valid_versions}"


def json_path(path: str) -> str:
    """Return a path of definition names as Kafka's JSON names: ``topics[0].name``."""
    return re.sub(r"(^|\.)([A-Z])", lambda match: match[1] + match[2].lower(), path)


def locate_failure(
    definition: MessageSpec, version: int, data: bytes | memoryview, at: int, reason: str
) -> tuple[str | None, int, str]:
    """Return the path of the field that cannot be read, its position in ``data``, and why.

    Args:
        definition: the message's definition.
        version: the version as which the body was read.
        data: the bytes of the whole frame.
        at: index in ``data`` of the first byte of the body.
        reason: the decoder's reason; returned without a field if the interpreter finds nothing
            wrong.
    """
    from kanalyze.kafka.codec.interpreter import failure_of  # imported late: only for failures

    failure = failure_of(definition, version, data, at)
    if failure is None:
        return None, at, reason
    return json_path(failure.path), failure.pos, failure.reason
