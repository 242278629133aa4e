"""Request and response headers.

In: bytes and the catalog, which knows the header's version. Out: the header and where the body
begins.

Layouts: https://kafka.apache.org/protocol (Request Header v0 to v2, Response Header v0 and v1).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.codec.primitives import skip_tags
from kanalyze.kafka.wire import Malformed, Truncated

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog

__all__ = [
    "RequestHeader",
    "ResponseHeader",
    "parse_request_header",
    "parse_response_header",
    "request_header_of",
]

# api_key, api_version, correlation_id; then the length of client_id
_version_0 = Struct(">hhi").unpack_from
_version_1 = Struct(">hhih").unpack_from
_correlation_id = Struct(">i").unpack_from


class RequestHeader:
    """The header of a request.

    Attributes:
        api_key, api_version, correlation_id: the first three numbers.
        client_id: bytes that are no UTF-8 become escapes; None for null, and in version 0.
        body: index in the view of the first byte after the header.
    """

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        body: int,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RequestHeader):
            return NotImplemented
        return self._compared() == other._compared()

    __hash__ = None  # type: ignore[assignment]

    def _compared(self) -> tuple[object, ...]:
        return (self.api_key, self.api_version, self.correlation_id, self.client_id, self.body)


class ResponseHeader(NamedTuple):
    """The header of a response."""

    correlation_id: int
    body: int
    """Index in the view of the first byte after the header."""


def parse_request_header(
    view: bytes | memoryview, pos: int, limit: int, catalog: Catalog
) -> RequestHeader:
    """Read the request header at ``view[pos]``, which ends at ``limit`` at the latest.

    Raises Truncated if it ends later, Malformed for a length below -1 and for tags that don't rise.
    Keys and versions are not checked: unknown ones are read as
    :meth:`~kanalyze.kafka.schema.catalog.Catalog.request_header_version` says.
    """
    start = pos + 10
    if start > limit:
        return _short_header(view, pos, limit, catalog)
    key, version, correlation_id, length = _version_1(view, pos)
    header_version = catalog.request_header_version(key, version)
    if header_version == 0:
        return request_header_of(key, version, correlation_id, None, pos + 8)
    client_id, end = None, start
    if length >= 0:
        end += length
        if end > limit:
            raise Truncated("the bytes end within a request header")
        client_id = str(view[start:end], "utf-8", "backslashreplace")
    elif length < -1:
        raise Malformed("client_id: negative length")
    if header_version == 2 and catalog.api(key) is not None:
        # The body of an unknown API is not read; nor are its tags, which may not exist.
        end = _after_tags(view, end, limit)
    return request_header_of(key, version, correlation_id, client_id, end)


def _short_header(
    view: bytes | memoryview, pos: int, limit: int, catalog: Catalog
) -> RequestHeader:
    """Read a header that has no room for a client id, as only version 0 allows."""
    if pos + 8 <= limit:
        key, version, correlation_id = _version_0(view, pos)
        if catalog.request_header_version(key, version) == 0:
            return request_header_of(key, version, correlation_id, None, pos + 8)
    raise Truncated("the bytes end within a request header")


def parse_response_header(
    view: bytes | memoryview, pos: int, limit: int, header_version: int
) -> ResponseHeader:
    """Read the response header at ``view[pos]``, which ends at ``limit`` at the latest.

    ``header_version`` is what
    :meth:`~kanalyze.kafka.schema.catalog.Catalog.response_header_version` says for its request: the
    bytes don't say it. Raises as :func:`parse_request_header` does.
    """
    if pos + 4 > limit:
        raise Truncated("the bytes end within a response header")
    correlation_id = _correlation_id(view, pos)[0]
    end = pos + 4
    if header_version >= 1:
        end = _after_tags(view, end, limit)
    return ResponseHeader(correlation_id, end)


def _after_tags(view: bytes | memoryview, pos: int, limit: int) -> int:
    """Skip the header's tag section, which is nearly always one zero byte."""
    if pos < limit and view[pos] == 0:
        return pos + 1
    end = skip_tags(view, pos, limit)
    if end > limit:
        raise Truncated("the bytes end within a header")
    return end


def request_header_of(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: int
) -> RequestHeader:
    """Make a :class:`RequestHeader`; fast from compiled modules."""
    header = RequestHeader.__new__(RequestHeader)
    header.api_key, header.api_version = api_key, api_version
    header.correlation_id = correlation_id
    header.client_id = client_id
    header.body = body
    return header
