"""Reads the record headers whose formats are known.

In: headers. Out: :class:`HeaderFacts`.

Formats: W3C Trace Context, level 1 (``traceparent``); the headers of Confluent's
``HeaderSchemaIdSerializer`` (``__key_schema_id``, ``__value_schema_id``): the byte 1 and the 16
bytes of a GUID, then any bytes; or the byte 0 and an id of 4 bytes. If a name is repeated, the last
header counts, as in the client libraries.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.records.batches import schema_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.kafka.records.types import Header

__all__ = ["KNOWN_HEADERS", "HeaderFacts", "facts_of"]

_TRACE_PARENT = b"traceparent"
_KEY_SCHEMA, _VALUE_SCHEMA = b"__key_schema_id", b"__value_schema_id"
KNOWN_HEADERS = frozenset({_TRACE_PARENT, _KEY_SCHEMA, _VALUE_SCHEMA})
"""Names of the headers whose formats are known."""
_traceparent = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?"
)
_FIRST_VERSION = b"00"
_GUID_MAGIC = 1
_GUID_END = 17


class HeaderFacts(NamedTuple):
    """The values in the headers of a record.

    Attributes:
        trace_id: of ``traceparent``, in hexadecimal digits.
        parent_span_id: of ``traceparent``, in hexadecimal digits.
        key_schema_id, value_schema_id: ids of 4 bytes; -1 for none.
        key_schema_guid, value_schema_guid: GUIDs.
    """

    trace_id: str | None
    parent_span_id: str | None
    key_schema_id: int
    value_schema_id: int
    key_schema_guid: str | None
    value_schema_guid: str | None


def facts_of(headers: Sequence[Header]) -> HeaderFacts:
    """Return the values in headers with known formats."""
    values = {key: value for key, value in headers if value is not None and key in KNOWN_HEADERS}
    trace_id, parent_span_id = _trace(values.get(_TRACE_PARENT))
    of_key, of_value = values.get(_KEY_SCHEMA), values.get(_VALUE_SCHEMA)
    return HeaderFacts(
        trace_id,
        parent_span_id,
        schema_id(of_key),
        schema_id(of_value),
        _guid(of_key),
        _guid(of_value),
    )


def _trace(value: bytes | None) -> tuple[str | None, str | None]:
    match = None if value is None else _traceparent.fullmatch(value)
    # A later version may have more fields; the first one has four.
    if match is None or (match[1] == _FIRST_VERSION and match[4] is not None):
        return None, None
    return match[2].decode("ascii"), match[3].decode("ascii")


def _guid(value: bytes | None) -> str | None:
    if value is None or len(value) < _GUID_END or value[0] != _GUID_MAGIC:
        return None
    return str(uuid.UUID(bytes=value[1:_GUID_END]))
