"""Says in words why a message could not be read to its end.

In: definitions, and bytes that a decoder refused. Out: short texts for people, never bytes from the
wire.

Decoders are made for speed: they know what is wrong, but not where. The slow interpreter finds the
field. The error code of a response that cannot be read is guessed. In many responses an error code
comes first, or after the throttle time. If the version is not in the tables, or bytes are missing
or wrong further on, the layout of the nearest known version says where the code is. The layout of
an API that is not in the tables is one of the usual ones: its code counts only if they do not
contradict each other, and if no data follows, because a response to a failed request has none.
"""

from __future__ import annotations

import re
import struct
from itertools import islice
from typing import TYPE_CHECKING, Final

from kanalyze.kafka.framing.frame import parse_response_header
from kanalyze.kafka.schema.error_codes import error_name, is_known
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import MessageSpec

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
    from kanalyze.kafka.codec.interpreter import trace_message  # imported late: only for failures

    failure = trace_message(definition, version, data, at, most_elements=0).failure
    if failure is None:
        return None, at, reason
    return json_path(failure.path), failure.pos, failure.reason


_PREFIX_BYTES: Final = 4
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_THROTTLE, _CODE = "ThrottleTimeMs", "ErrorCode"
_USUAL: Final = ((0, ()), (0, (_THROTTLE,)), (1, ()), (1, (_THROTTLE,)))
"""Version of the header, and the fields before the error code."""
_MAX_THROTTLE_MS: Final = 3_600_000
"""More than any quota leads to: other bytes are not taken for a throttle time."""
_LONGEST_MESSAGE_BYTES: Final = 127
"""Of a message whose length takes one byte."""
_LARGEST_FAILED_BYTES: Final = 1024
"""A response to a failed request has at most a message besides its code."""


def with_probable_error(
    reason: str,
    catalog: Catalog,
    api_key: int,
    api_version: int,
    data: bytes | memoryview,
    length: int,
) -> str:
    """Return why a response was not read, and the error code that it probably has.

    Args:
        reason: why it was not read.
        catalog: the definitions.
        api_key: the API of its request; it need not be known.
        api_version: the version of its request; it need not be known.
        data: the first bytes of its frame, from the size prefix on.
        length: the length of the whole frame.
    """
    if catalog.api(api_key) is None:
        code = _of_unknown_api(data) if len(data) == length <= _LARGEST_FAILED_BYTES else None
    else:
        code = _of_nearest_version(catalog, api_key, api_version, data)
    return reason if code is None else f"{reason}; probably error {code} {error_name(code)}"


def _of_nearest_version(
    catalog: Catalog, api_key: int, api_version: int, data: bytes | memoryview
) -> int | None:
    api = catalog.api(api_key)
    assert api is not None
    version = min(max(api_version, api.versions.lowest), api.versions.highest)
    fields = catalog.message(api_key, "response").struct.fields
    present = (f.name for f in fields if f.is_present(version) and not f.is_tagged(version))
    names = list(islice(present, 2))
    if _CODE not in names or not {*names[: names.index(_CODE)]} <= {_THROTTLE}:
        return None
    before = tuple(names[: names.index(_CODE)])
    code, _ = _code_at(data, catalog.response_header_version(api_key, version), before)
    return code or None


def _of_unknown_api(data: bytes | memoryview) -> int | None:
    """Return the one code that is read in some usual layouts while the others read no code."""
    codes = set()
    for header_version, before in _USUAL:
        code, end = _code_at(data, header_version, before)
        if code is not None and code > 0 and _has_no_data(data[end:], header_version):
            codes.add(code)
    return codes.pop() if len(codes) == 1 else None


def _code_at(
    data: bytes | memoryview, header_version: int, before: tuple[str, ...]
) -> tuple[int | None, int]:
    """Return a known error code and where it ends; None if the bytes are no such layout."""
    try:
        at = parse_response_header(data, _PREFIX_BYTES, len(data), header_version).body
    except WireError:
        return None, 0
    if before:
        if at + _INT32.size > len(data):
            return None, 0
        if not 0 <= _INT32.unpack_from(data, at)[0] <= _MAX_THROTTLE_MS:
            return None, 0
        at += _INT32.size
    end = at + _INT16.size
    if end > len(data):
        return None, 0
    code: int = _INT16.unpack_from(data, at)[0]
    return (code if is_known(code) else None), end


def _has_no_data(rest: bytes | memoryview, header_version: int) -> bool:
    """Return true if bytes after a code are only lengths of nothing, perhaps after a message."""
    return any(
        all(byte in (0, 0xFF) for byte in rest[begin:]) for begin in _ends(rest, header_version)
    )


def _ends(rest: bytes | memoryview, header_version: int) -> Iterator[int]:
    """Yield where a message that begins ``rest`` may end: at its beginning if there is none."""
    yield 0
    # A message in an old header's layout cannot be told from a list of one name.
    length = rest[0] if header_version and len(rest) else 0
    if 1 < length <= min(len(rest), _LONGEST_MESSAGE_BYTES):
        message = str(rest[1:length], "utf-8", "replace")
        if message.isprintable():
            yield length
