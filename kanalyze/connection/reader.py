"""Reads requests and responses out of frames: header, then as much of the body as is wanted.

In: a :class:`~kanalyze.protocol.framing.Frame`, and for a response the request it answers. Out:
values, or a verdict that says what is wrong. This module must not know of pairing, of directions,
or of what the values are for: what to read is told by a :class:`Wanted`.

Where others go wrong, and what is done here, is in one place:

- An ApiVersions request in a version that the broker does not know is answered with error 35 and
  a version 0 body.
- ``acks`` sits after ``transactional_id`` from Produce v3 on.
- A version newer than the tables is read as the newest known one only if that consumes the frame
  to the byte.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from kanalyze.model import AnomalyKind
from kanalyze.protocol.headers import RequestHeader, parse_request_header, parse_response_header
from kanalyze.protocol.lockstep import LockstepDecoder
from kanalyze.protocol.primitives import read_unsigned_varint
from kanalyze.protocol.projection import Projection
from kanalyze.protocol.skim import needed, skim
from kanalyze.protocol.wire import Truncated, WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.protocol.catalog import Api, Catalog
    from kanalyze.protocol.compiler import Decoders
    from kanalyze.protocol.framing import Frame
    from kanalyze.protocol.skim import Ranges

__all__ = ["API_VERSIONS", "Body", "MessageReader", "Wanted"]

PRODUCE = 0
SASL_HANDSHAKE = 17
API_VERSIONS = 18
SASL_AUTHENTICATE = 36

_UNSUPPORTED_VERSION = 35
_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from
_PADDING_BYTES = 4
"""librdkafka's ApiVersions v0 requests carry four zero bytes after the body."""

Kind = Literal["request", "response"]
_Decode: TypeAlias = "Callable[..., tuple[Any, int]]"


class Wanted(Protocol):
    """Says which fields of a message are to be read."""

    def __call__(self, api_key: int, kind: Kind) -> Projection:
        """Return the fields wanted of the API's requests or responses."""
        ...


class Body(NamedTuple):
    """What became of a body.

    ``values`` is None and ``version`` too when nothing was read; ``problem`` says why, or that
    bytes were left over.
    """

    values: Any
    version: int | None
    problem: AnomalyKind | None


class _Plan(NamedTuple):
    """How the messages of one API version are read; made once."""

    header_version: int
    decode: _Decode | None
    version: int | None
    """The version that ``decode`` is for; another one than asked for where that is not known."""
    known: bool


_UNREAD = Body(None, None, None)


class MessageReader:
    """Reads messages with decoders that it makes when first needed, and keeps."""

    def __init__(self, catalog: Catalog, decoders: Decoders, wanted: Wanted) -> None:
        self._catalog = catalog
        self._decoders = decoders
        self._wanted = wanted
        self._request_plans: dict[tuple[int, int], _Plan] = {}
        self._response_plans: dict[tuple[int, int], _Plan] = {}
        self._locksteps: dict[tuple[int, int], tuple[LockstepDecoder, LockstepDecoder]] = {}
        self._nothing = Projection.of()
        self._checks: dict[tuple[int, int], _Decode | None] = {}
        self._field_decoders: dict[tuple[int, int, tuple[str, ...]], _Decode] = {}

    # -- requests ---------------------------------------------------------------------------------

    def request_header(self, frame: Frame) -> RequestHeader:
        """Read a request's header; its ``body`` is a frame position.

        Raises:
            WireError: the frame has no room for it, or its bytes are not there.
        """
        return self.parse_header(self.beginning(frame), frame.size)

    @staticmethod
    def beginning(frame: Frame) -> memoryview:
        """Return the first bytes of a frame, all of them where they are few.

        For those who read header and body: a frame that lies in pieces is joined once. Raises
        WireError when they are not there.
        """
        view = frame.whole()
        return frame.window(0) if view is None else view

    def parse_header(self, view: memoryview, size: int) -> RequestHeader:
        """Read a request's header from the first bytes of a frame of ``size`` bytes.

        The key and the version need not be known ones. Raises WireError as
        :meth:`request_header` does.
        """
        return parse_request_header(view, 4, min(len(view), size + 4), self._catalog)

    def request_body(
        self, frame: Frame, header: RequestHeader, view: memoryview | None = None
    ) -> Body:
        """Read the wanted fields of a request; ``view`` is its :meth:`beginning`, if at hand."""
        plan = self._request_plan(header.api_key, header.api_version)
        return self._body(frame, header.body, plan, header.api_key, view)

    def acks(
        self, frame: Frame, header: RequestHeader, view: memoryview | None = None
    ) -> int | None:
        """Return ``acks`` of a Produce request, None when it cannot be read.

        ``view`` as in :meth:`request_body`.
        """
        try:
            return _acks(frame, header, view)
        except (WireError, struct.error, IndexError):
            return None

    def protocol_fields(
        self, frame: Frame, header: RequestHeader, *paths: str
    ) -> tuple[Any, ...] | None:
        """Read named fields of a request now, apart from those wanted; None when that fails.

        For what a connection must know to follow the protocol; the caller keeps no secrets.
        """
        decode = self._field_decoder(header.api_key, header.api_version, paths)
        if decode is None:
            return None
        try:
            values, _ = _run(decode, frame, header.body)
        except WireError:
            return None
        return tuple(values)

    def _field_decoder(self, api_key: int, version: int, paths: tuple[str, ...]) -> _Decode | None:
        key = (api_key, version, paths)
        found = self._field_decoders.get(key)
        if found is None:
            api = self._catalog.api(api_key)
            if api is None or not _knows(api, version):
                return None
            found = self._decoders.get(api_key, "request", version, Projection.of(*paths))
            self._field_decoders[key] = found
        return found

    # -- responses --------------------------------------------------------------------------------

    @staticmethod
    def correlation_id(frame: Frame) -> int:
        """Return a response's correlation id; raises WireError when it is not there."""
        view = frame.whole()
        if view is None or len(view) < 8:
            return int(_INT32(frame.read(4, 4))[0])
        return int(_INT32(view, 4)[0])

    def response_body(self, frame: Frame, api_key: int, api_version: int) -> Body:
        """Read the wanted fields of the response to a request of that key and version."""
        plan = self._response_plan(api_key, api_version)
        view, at = None, 8
        try:
            if plan.header_version > 0:
                view = self.beginning(frame)
                at = _response_body_at(view, plan.header_version)
            elif api_key == API_VERSIONS and frame.size >= 6:
                code = _INT16(frame.read(at, 2))[0]
                if code == _UNSUPPORTED_VERSION:
                    plan = self._response_plan(api_key, 0)
        except WireError:
            return Body(None, None, _failure(frame))
        return self._body(frame, at, plan, api_key, view)

    # -- what of an unfinished message is needed --------------------------------------------------

    def skim_request(self, frame: Frame, header: RequestHeader) -> tuple[Ranges, int] | None:
        """Let an unfinished request go of what no field that is wanted needs.

        Returns what was kept, as :func:`~kanalyze.protocol.skim.skim`; None where nothing was let
        go of.
        """
        plan = self._request_plan(header.api_key, header.api_version)
        if plan.decode is not None and plan.known:
            return skim(frame, header.body, plan.decode)
        return None

    def skim_response(
        self, frame: Frame, api_key: int, api_version: int
    ) -> tuple[Ranges, int] | None:
        """As :meth:`skim_request`, for the response to a request of that key and version."""
        plan = self._response_plan(api_key, api_version)
        at = _body_at(frame, plan)
        if plan.decode is not None and plan.known and at is not None:
            return skim(frame, at, plan.decode)
        return None

    def needed_of_request(self, frame: Frame, header: RequestHeader) -> Ranges | None:
        """Return which bytes of a whole request the fields that are wanted need.

        None where that is not known: all of them.
        """
        plan = self._request_plan(header.api_key, header.api_version)
        if plan.decode is None or not plan.known or frame.missing_bytes:
            return None
        return needed(frame, header.body, plan.decode)

    def needed_of_response(self, frame: Frame, api_key: int, api_version: int) -> Ranges | None:
        """As :meth:`needed_of_request`, for the response to a request of that key and version."""
        plan = self._response_plan(api_key, api_version)
        if plan.decode is None or not plan.known or frame.missing_bytes:
            return None
        at = _body_at(frame, plan)
        return None if at is None else needed(frame, at, plan.decode)

    # -- many alike -------------------------------------------------------------------------------

    def knows(self, api_key: int) -> bool:
        """Tell whether there is such an API."""
        return self._catalog.api(api_key) is not None

    def header_versions(self, api_key: int, api_version: int) -> tuple[int, int]:
        """Return the versions of the headers of an API's requests and responses."""
        return (
            self._catalog.request_header_version(api_key, api_version),
            self._catalog.response_header_version(api_key, api_version),
        )

    def lockstep(
        self, api_key: int, api_version: int
    ) -> tuple[LockstepDecoder, LockstepDecoder] | None:
        """Return what reads many requests, and many responses, of one API version.

        It reads the fields that are wanted. None for a version that is not known.
        """
        key = (api_key, api_version)
        found = self._locksteps.get(key)
        if found is None:
            api = self._catalog.api(api_key)
            if api is None or not _knows(api, api_version):
                return None
            found = self._locksteps[key] = (
                self._make_lockstep(api_key, api_version, "request"),
                self._make_lockstep(api_key, api_version, "response"),
            )
        return found

    def _make_lockstep(self, api_key: int, api_version: int, kind: Kind) -> LockstepDecoder:
        message = self._catalog.message(api_key, kind)
        return LockstepDecoder(message, api_version, self._wanted(api_key, kind))

    # -- is this a message at all? ----------------------------------------------------------------

    def check_request(self, view: memoryview, header: RequestHeader, size: int) -> bool | None:
        """Tell whether a request's body consumes its frame exactly.

        Args:
            view: bytes from the frame's first on; may end before the frame, or go on after it.
            header: the header, already read from ``view``.
            size: the frame's declared size.

        Returns:
            True if it does; False if it cannot; None when the view ends too early to tell, or the
            version is not known.
        """
        check = self._check(header.api_key, header.api_version)
        if check is None:
            return None
        here = view[: size + 4]
        try:
            _, end = check(here, header.body, 0, None)
        except Truncated:
            return None if len(here) < size + 4 else False
        except WireError:
            return False
        left = size + 4 - end
        return left == 0 or (left <= _PADDING_BYTES and not any(here[end:]))

    def check_response(
        self, view: memoryview, size: int, api_key: int, api_version: int
    ) -> bool | None:
        """As :meth:`check_request`, for the response to a request of that key and version."""
        plan = self._response_plan(api_key, api_version)
        if plan.decode is None or not plan.known:
            return None
        here = view[: size + 4]
        try:
            at = _response_body_at(here, plan.header_version)
            decode = plan.decode
            if api_key == API_VERSIONS and _INT16(here, at)[0] == _UNSUPPORTED_VERSION:
                decode = self._response_plan(api_key, 0).decode or decode
            _, end = decode(here, at, 0, None)
        except (Truncated, struct.error):
            return None if len(here) < size + 4 else False
        except WireError:
            return False
        return bool(end == size + 4)

    def confirms_request(self, frame: Frame, header: RequestHeader) -> bool:
        """Tell whether a request's body takes up its whole frame, as far as the frame is there.

        True too where the version is not known: there is no telling.
        """
        check = self._check(header.api_key, header.api_version)
        if check is None:
            return frame.missing_bytes == 0
        return _fills(check, frame, header.body)

    def confirms_response(self, frame: Frame, api_key: int, api_version: int) -> bool:
        """As :meth:`confirms_request`, for the response to a request of that key and version."""
        plan = self._response_plan(api_key, api_version)
        if plan.decode is None or not plan.known:
            return frame.missing_bytes == 0
        at = _body_at(frame, plan)
        return at is not None and _fills(plan.decode, frame, at)

    # -- how --------------------------------------------------------------------------------------

    def _check(self, api_key: int, version: int) -> _Decode | None:
        found = self._checks.get((api_key, version))
        if found is None and (api_key, version) not in self._checks:
            api = self._catalog.api(api_key)
            if api is not None and _knows(api, version):
                found = self._decoders.get(api_key, "request", version, self._nothing)
            self._checks[api_key, version] = found
        return found

    def _request_plan(self, api_key: int, version: int) -> _Plan:
        plan = self._request_plans.get((api_key, version))
        if plan is None:
            plan = self._make_plan(api_key, version, "request")
            _remember(self._request_plans, (api_key, version), plan)
        return plan

    def _response_plan(self, api_key: int, version: int) -> _Plan:
        plan = self._response_plans.get((api_key, version))
        if plan is None:
            plan = self._make_plan(api_key, version, "response")
            _remember(self._response_plans, (api_key, version), plan)
        return plan

    def _make_plan(self, api_key: int, version: int, kind: Kind) -> _Plan:
        api = self._catalog.api(api_key)
        if api is None:
            return _Plan(1 if kind == "request" else 0, None, None, known=False)
        if kind == "request":
            header_version = self._catalog.request_header_version(api_key, version)
        else:
            header_version = self._catalog.response_header_version(api_key, version)
        read_as = min(version, api.versions.highest)
        if version < api.versions.lowest:
            return _Plan(header_version, None, None, known=False)
        decode = self._decoders.get(api_key, kind, read_as, self._wanted(api_key, kind))
        return _Plan(header_version, decode, read_as, known=read_as == version)

    def _body(
        self, frame: Frame, at: int, plan: _Plan, api_key: int, view: memoryview | None
    ) -> Body:
        decode = plan.decode
        if decode is None:
            known_api = self._catalog.api(api_key) is not None
            kind = AnomalyKind.UNKNOWN_API_VERSION if known_api else AnomalyKind.UNKNOWN_API
            return Body(None, None, kind)
        try:
            whole = _whole(frame, view)
            values, end = _run(decode, frame, at) if whole is None else decode(whole, at, 0, None)
        except WireError:
            if plan.known:
                return Body(None, None, _failure(frame))
            return Body(None, None, AnomalyKind.UNKNOWN_API_VERSION)
        exact = end == frame.size + 4
        if not plan.known:
            values = values if exact else None
            return Body(values, plan.version if exact else None, AnomalyKind.UNKNOWN_API_VERSION)
        return Body(values, plan.version, None if exact else AnomalyKind.TRAILING_BYTES)


def _knows(api: Api, version: int) -> bool:
    return bool(api.versions.lowest <= version <= api.versions.highest)


_MOST_PLANS = 4096


def _remember(plans: dict[tuple[int, int], _Plan], key: tuple[int, int], plan: _Plan) -> None:
    # Keys and versions come from the wire: 2^32 of them would fit in a hostile capture.
    if len(plans) >= _MOST_PLANS:
        plans.clear()
    plans[key] = plan


def _failure(frame: Frame) -> AnomalyKind:
    return AnomalyKind.MISSING_BYTES if frame.missing_bytes else AnomalyKind.MALFORMED_BODY


def _whole(frame: Frame, view: memoryview | None) -> memoryview | None:
    """Return the bytes of a whole frame; ``view`` holds its first ones, if they are at hand."""
    if view is None:
        return frame.whole()
    return view if len(view) == frame.size + 4 else None


def _run(decode: _Decode, frame: Frame, at: int) -> tuple[Any, int]:
    """Decode a body, joining as little of a frame that lies in pieces as it takes."""
    view = frame.whole()
    if view is not None:
        return decode(view, at, 0, None)
    return decode(frame.window(at), 0, at, frame)


def _response_body_at(view: memoryview, header_version: int) -> int:
    """Return where the body of a response begins; raises as ``parse_response_header``."""
    return parse_response_header(view, 4, len(view), header_version).body


def _body_at(frame: Frame, plan: _Plan) -> int | None:
    """Return where the body of a response begins; None when its header cannot be read."""
    try:
        return _response_body_at(frame.window(0), plan.header_version)
    except WireError:
        return None


def _fills(decode: _Decode, frame: Frame, at: int) -> bool:
    try:
        _, end = _run(decode, frame, at)
    except WireError:
        return False
    return bool(end == frame.length)


def _acks(frame: Frame, header: RequestHeader, view: memoryview | None) -> int:
    view, at = _whole(frame, view), header.body
    if view is None:
        view, at = frame.window(at), 0
    version = header.api_version
    if version >= 9:
        length, at = read_unsigned_varint(view, at)
        at += max(length - 1, 0)
    elif version >= 3:
        at += 2 + max(_INT16(view, at)[0], 0)
    return int(_INT16(view, at)[0])
