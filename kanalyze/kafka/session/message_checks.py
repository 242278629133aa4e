"""Checks whether bytes are a message: its body has to take up the frame to the byte.

In: bytes or a frame, and the API and version of a candidate. Out: a verdict.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kanalyze.kafka.codec.compiler import Projection
from kanalyze.kafka.framing.frame import parse_response_header
from kanalyze.kafka.wire import MissingBytes, Truncated, WireError

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    API_VERSIONS = 18
    UNSUPPORTED_VERSION = 35

if TYPE_CHECKING:
    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.session.decode_plans import DecodePlans

__all__ = ["MessageChecks", "is_padding", "response_body_at"]

_INT16 = struct.Struct(">h").unpack_from
_PADDING_BYTES = 4
"""librdkafka's ApiVersions v0 requests have four zero bytes after the body."""


class MessageChecks:
    """Checks requests and responses with decoders that read no field."""

    def __init__(self, plans: DecodePlans, decoders: Decoders) -> None:
        self._plans = plans
        self._decoders = decoders
        self._request_checks: dict[tuple[int, int], BodyDecoder | None] = {}

    def request_fits(self, view: memoryview, header: RequestHeader, size: int) -> bool | None:
        """Return true if a request's body takes up its frame exactly, in some layout.

        Args:
            view: bytes from the frame's first on; may end before the frame, or continue after it.
            header: the header, already read from ``view``.
            size: the frame's declared size.

        Returns:
            True if it does; False if it cannot; None when the view ends too early to tell, or the
            version is not known.
        """
        check = self._request_check(header.api_key, header.api_version)
        if check is None:
            return None
        window = view[: size + 4]
        try:
            _, end = check(window, header.body, 0, None)
        except Truncated:
            return _fits_other(self._superseded_check(header), window, header.body, size)
        except WireError:
            end = -1
        if size + 4 - end <= _PADDING_BYTES and not any(window[end:]):
            return True
        superseded = self._superseded_check(header)
        return False if superseded is None else _fits_other(superseded, window, header.body, size)

    def response_fits(
        self, view: memoryview, size: int, api_key: int, api_version: int
    ) -> bool | None:
        """As :meth:`request_fits`, for the response to a request of that key and version."""
        plan = self._plans.response(api_key, api_version)
        if plan.decode is None or not plan.known:
            return None
        window = view[: size + 4]
        at = 8
        try:
            at = parse_response_header(window, 4, len(window), plan.header_version).body
            decode = plan.decode
            if api_key == API_VERSIONS and _INT16(window, at)[0] == UNSUPPORTED_VERSION:
                decode = self._plans.response(api_key, 0).decode or decode
            _, end = decode(window, at, 0, None)
        except (Truncated, struct.error):
            return _fits_other(plan.superseded, window, at, size)
        except WireError:
            end = -1
        if end == size + 4 or plan.superseded is None:
            return bool(end == size + 4)
        return _fits_other(plan.superseded, window, at, size)

    def whole_request_fits(self, frame: Frame, header: RequestHeader) -> bool:
        """As :meth:`request_fits`, for a frame that is complete and contiguous."""
        check = self._request_check(header.api_key, header.api_version)
        if check is None:
            return False
        if check.run(frame, header.body) is None and is_padding(frame, check.end):
            return True
        superseded = self._superseded_check(header)
        return superseded is not None and _fills(superseded, frame, header.body)

    def confirms_request(self, frame: Frame, header: RequestHeader) -> bool:
        """Return true if a request's body takes up its frame, as far as its bytes are there.

        True too for a complete request of an unknown version: nothing contradicts it.
        """
        check = self._request_check(header.api_key, header.api_version)
        if check is None:
            return frame.missing_bytes == 0
        return _fills(check, frame, header.body) or _fills(
            self._superseded_check(header), frame, header.body
        )

    def confirms_response(self, frame: Frame, api_key: int, api_version: int) -> bool:
        """As :meth:`confirms_request`, for the response to a request of that key and version."""
        plan = self._plans.response(api_key, api_version)
        if plan.decode is None or not plan.known:
            return frame.missing_bytes == 0
        at = response_body_at(frame, plan.header_version)
        return at is not None and (
            _fills(plan.decode, frame, at) or _fills(plan.superseded, frame, at)
        )

    def _request_check(self, api_key: int, version: int) -> BodyDecoder | None:
        key = (api_key, version)
        if key not in self._request_checks:
            self._request_checks[key] = (
                self._decoders.get(api_key, "request", version, _NO_FIELDS)
                if self._plans.has_version(api_key, version)
                else None
            )
        return self._request_checks[key]

    def _superseded_check(self, header: RequestHeader) -> BodyDecoder | None:
        return self._decoders.superseded(header.api_key, "request", header.api_version, _NO_FIELDS)


_NO_FIELDS = Projection.of()


def is_padding(frame: Frame, at: int) -> bool:
    """Return true if the bytes from ``at`` on are the padding that some clients write, or none."""
    size = frame.length - at
    if size > _PADDING_BYTES:
        return False
    try:
        return not any(frame.read(at, size))
    except WireError:  # they are missing
        return False


def response_body_at(frame: Frame, header_version: int) -> int | None:
    """Return where the body of a response begins; None when its header cannot be read."""
    view = frame.window(0)
    try:
        return parse_response_header(view, 4, len(view), header_version).body
    except WireError:
        return None


def _fits_other(decode: BodyDecoder | None, window: memoryview, at: int, size: int) -> bool | None:
    """Return true if a body that does not fit the final layout fits the one of some releases.

    None if the bytes end too early to decide.
    """
    if len(window) < size + 4:
        return None
    if decode is None:
        return False
    try:
        _, end = decode(window, at, 0, None)
    except WireError:
        return False
    return bool(end == size + 4)


def _fills(decode: BodyDecoder | None, frame: Frame, at: int) -> bool:
    if decode is None:
        return False
    try:
        decode.of_frame(frame, at)
    except MissingBytes:
        return frame.missing_bytes > 0
    except WireError:
        return False
    return decode.end == frame.length
