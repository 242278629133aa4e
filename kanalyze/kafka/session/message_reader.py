"""Reads requests and responses out of frames: header, then as much of the body as is wanted.

In: a :class:`~kanalyze.kafka.framing.framer.Frame`, and for a response the request it answers. Out:
values, or a verdict that says what is wrong. This module must not know of pairing, of directions,
or of what the values are for: what to read is told by a :class:`Wanted`.

Where others go wrong, and what is done here, is in one place:

- An ApiVersions request in a version that the broker does not know is answered with error 35 and
  a version 0 body.
- ``acks`` sits after ``transactional_id`` from Produce v3 on.
- A version that had other fields in some releases, while it was unstable, is read as they wrote it
  where that consumes the frame to the byte and the layout that stands does not.
- A version newer than the tables is read as the newest known one only if that consumes the frame
  to the byte.

Compiled by Cython, with the types in ``reader.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kanalyze.common.plain_values import fields
from kanalyze.kafka.codec.byte_ranges_read import byte_ranges_read, drop_unread_bytes
from kanalyze.kafka.codec.failures import (
    LEFT_OVER,
    NOT_ALL_THERE,
    UNKNOWN_API,
    found_failure,
    unknown_version,
)
from kanalyze.kafka.codec.projection import Projection
from kanalyze.kafka.codec.trace import trace_message
from kanalyze.kafka.codec.values import Texts
from kanalyze.kafka.framing.headers import (
    RequestHeader,
    parse_request_header,
    parse_response_header,
)
from kanalyze.kafka.records.first_records import first_records
from kanalyze.kafka.wire import Malformed, MissingBytes, Truncated, WireError
from kanalyze.model.anomalies import AnomalyKind

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.codec.machine import int16_at, int32_at, varint_at, varint_width
    from kanalyze.kafka.framing.headers import request_header_of
    from kanalyze.kafka.session.exchange import NO_VERSION

    PRODUCE = 0
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    SASL_AUTHENTICATE = 36
    UNSUPPORTED_VERSION = 35
    LEAST_HEADER_BYTES = 14  # size, key, version, correlation id, length of a client id

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.codec.byte_ranges_read import Ranges
    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.codec.decoder import BodyDecoder
    from kanalyze.kafka.codec.values import Tape, Taped
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.schema.catalog import Api, Catalog
    from kanalyze.kafka.schema.schema_ast import MessageSpec as Definition
    from kanalyze.kafka.session.exchange import Message

__all__ = ["Body", "MessageReader", "Wanted"]

_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from
_MOST_TOKEN_BYTES = 1 << 16
"""Of a message of SaslAuthenticate in which the token is looked for: one that is larger is hidden
as a whole. A ticket of Kerberos takes some kilobytes."""
_CODE_AT = 8
"""Position of an error code behind a response's header of version 0."""
_LONGEST_VARINT_BYTES = 5
_PADDING_BYTES = 4
"""librdkafka's ApiVersions v0 requests carry four zero bytes after the body."""
_RECORDS_WITHIN_BYTES = 640
"""Of a Produce request's body; before its first records stand two names."""

Kind = Literal["request", "response"]


class Wanted(Protocol):
    """Says which fields of a message are to be read."""

    def __call__(self, api_key: int, kind: Kind) -> Projection:
        """Return the fields wanted of the API's requests or responses."""
        ...


class Body:
    """What became of a body.

    ``taped`` is None and ``version`` too when nothing was read; ``problem`` says why, or that
    bytes were left over. ``read_as`` is the version for compiled modules, ``NO_VERSION`` for none.
    """

    __slots__ = ("detail", "problem", "read_as", "taped")

    def __init__(
        self,
        taped: Taped | None,
        version: int | None,
        problem: AnomalyKind | None,
        detail: str = "",
    ) -> None:
        self.taped = taped
        self.read_as = NO_VERSION if version is None else version
        self.problem = problem
        self.detail = detail
        """Where and why, in words."""

    @property
    def version(self) -> int | None:
        """The API version that it was read as; None when it was not read."""
        return None if self.read_as == NO_VERSION else self.read_as

    @property
    def values(self) -> Any:
        """The values of the fields that are wanted, made anew each time."""
        return None if self.taped is None else self.taped.values()


class _Plan:
    """How the messages of one API version are read; made once."""

    __slots__ = (
        "decode",
        "definition",
        "header_version",
        "key",
        "known",
        "superseded",
        "version",
    )

    def __init__(
        self,
        key: int,
        header_version: int,
        decode: BodyDecoder | None,
        version: int | None,
        definition: Definition | None,
        superseded: BodyDecoder | None = None,
        *,
        known: bool,
    ) -> None:
        self.key = key
        """Of API and version: see :func:`_key_of`."""
        self.header_version = header_version
        self.decode = decode
        self.version = version
        """The version that ``decode`` is for; another one than asked for where that is not
        known."""
        self.known = known
        self.definition = definition
        """None for an API that nobody knows."""
        self.superseded = superseded
        """For the layout that some releases gave the version."""

    @property
    def tells_needs(self) -> bool:
        """Whether what ``decode`` reads of a message is all that anybody will."""
        return self.known and self.superseded is None


_LARGEST_EXPLAINED_BYTES = 16 * 1024
_EXPLAINED_BYTES = 1 << 20
"""Of malformed messages the slow reader, at 5 us a byte, looks into so many bytes in all: of what
comes beyond it is said what is wrong, not where. A capture may hold nothing else."""

_REMEMBERED_BYTES, _MOST_REMEMBERED = 256, 256
"""Of messages up to that size so many different ones are looked into but once."""

_UNREAD = Body(None, None, None)


class MessageReader:
    """Reads messages with decoders that it makes when first needed, and keeps."""

    __slots__ = (
        "_catalog",
        "_checks",
        "_client_ids",
        "_decoders",
        "_explained_bytes",
        "_explanations",
        "_field_decoders",
        "_known",
        "_last_request_plan",
        "_last_response_plan",
        "_nothing",
        "_request_plans",
        "_response_plans",
        "_tape",
        "_wanted",
    )

    def __init__(self, catalog: Catalog, decoders: Decoders, wanted: Wanted) -> None:
        self._catalog = catalog
        self._decoders = decoders
        self._wanted = wanted
        self._request_plans: dict[int, _Plan] = {}
        self._response_plans: dict[int, _Plan] = {}
        self._last_request_plan: _Plan | None = None
        self._last_response_plan: _Plan | None = None
        """The one asked for last mostly is the one asked for next."""
        self._client_ids = Texts()
        self._tape: Tape | None = None
        self._known: dict[int, bool] = {}
        self._nothing = Projection.of()
        self._explained_bytes = 0
        self._explanations: dict[tuple[_Plan, int, bytes], str] = {}
        self._checks: dict[tuple[int, int], BodyDecoder | None] = {}
        self._field_decoders: dict[tuple[int, int, Kind, tuple[str, ...]], BodyDecoder] = {}

    # -- requests ---------------------------------------------------------------------------------

    def request_header(self, frame: Frame) -> RequestHeader:
        """Read a request's header; its ``body`` is a frame position.

        Raises:
            WireError: the frame has no room for it, or its bytes are not there.
        """
        found = self._usual_header(frame)
        return self.parse_header(self.beginning(frame), frame.size) if found is None else found

    def _usual_header(self, frame: Frame) -> RequestHeader | None:
        """Read a header that lies together and has nothing odd about it; None where it does not."""
        segments, limit = frame.segments, frame.begin + frame.together
        if segments is None or frame.together < LEAST_HEADER_BYTES:
            return None
        data, begin = segments.data, frame.begin
        api_key, version = int16_at(data, begin + 4), int16_at(data, begin + 6)
        plan = self._request_plan(api_key, version)
        length = int16_at(data, begin + 12)
        if plan.definition is None or plan.header_version == 0 or length < -1:
            return None
        client_id, end = None, begin + LEAST_HEADER_BYTES
        if length >= 0:
            end += length
            if end > limit:
                return None
            client_id = self._client_ids.text(data, end - length, end)
        if plan.header_version == 2:
            if end >= limit or data[end] != 0:
                return None
            end += 1
        correlation_id = int32_at(data, begin + 8)
        return request_header_of(api_key, version, correlation_id, client_id, end - begin)

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

    def request_body(self, frame: Frame, header: RequestHeader) -> Body:
        """Read the wanted fields of a request."""
        plan = self._request_plan(header.api_key, header.api_version)
        return self._body(frame, header.body, plan)

    def acks(self, frame: Frame, header: RequestHeader) -> int | None:
        """Return ``acks`` of a Produce request, None when it cannot be read."""
        try:
            return _acks(frame, header.body, header.api_version)
        except (WireError, struct.error, IndexError):
            return None

    def protocol_fields(
        self, frame: Frame, header: RequestHeader, *paths: str
    ) -> tuple[Any, ...] | None:
        """Read named fields of a request now, apart from those wanted; None when that fails.

        For what a connection must know to follow the protocol; the caller keeps no secrets.
        """
        return self._fields(
            frame, header.api_key, header.api_version, "request", header.body, paths
        )

    def response_fields(
        self, frame: Frame, api_key: int, api_version: int, *paths: str
    ) -> tuple[Any, ...] | None:
        """As :meth:`protocol_fields`, of the response to a request of that key and version."""
        at = _body_at(frame, self._response_plan(api_key, api_version))
        if at is None:
            return None
        return self._fields(frame, api_key, api_version, "response", at, paths)

    def _fields(
        self, frame: Frame, api_key: int, version: int, kind: Kind, at: int, paths: tuple[str, ...]
    ) -> tuple[Any, ...] | None:
        decode = self._field_decoder(api_key, version, kind, paths)
        if decode is None:
            return None
        try:
            return tuple(decode.of_frame(frame, at))
        except WireError:
            return None

    def token_in_request(self, frame: Frame, header: RequestHeader) -> tuple[int, int]:
        """Return the frame positions of the token in a SaslAuthenticate request.

        Those of the whole body where it cannot be read to the byte, or is not all there.
        """
        return self._token(frame, "request", header.api_version, header.body)

    def token_in_response(self, frame: Frame, api_version: int) -> tuple[int, int]:
        """As :meth:`token_in_request`, for the response to a request of that version."""
        at = _body_at(frame, self._response_plan(SASL_AUTHENTICATE, api_version))
        return self._token(frame, "response", api_version, 8 if at is None else at)

    def _token(self, frame: Frame, kind: Kind, version: int, at: int) -> tuple[int, int]:
        body, api = (at, frame.length), self._catalog.api(SASL_AUTHENTICATE)
        is_whole = frame.end_packet is not None and not frame.missing_bytes
        if not is_whole or frame.length > _MOST_TOKEN_BYTES or api is None:
            return body
        if not _knows(api, version):
            return body
        message = self._catalog.message(SASL_AUTHENTICATE, kind)
        trace = trace_message(message, version, frame.read(0, frame.length), at)
        fields = {node.name: node for node in trace.root.children}
        token = fields.get("AuthBytes")
        # A tag that nobody knows may be anything.
        is_plain = trace.pos == frame.length and "_taggedFields" not in fields
        if trace.failure is not None or not is_plain or token is None or token.end is None:
            return body
        return token.end - len(token.value or b""), token.end

    def _field_decoder(
        self, api_key: int, version: int, kind: Kind, paths: tuple[str, ...]
    ) -> BodyDecoder | None:
        key = (api_key, version, kind, paths)
        found = self._field_decoders.get(key)
        if found is None:
            api = self._catalog.api(api_key)
            if api is None or not _knows(api, version):
                return None
            found = self._decoders.get(api_key, kind, version, Projection.of(*paths))
            self._field_decoders[key] = found
        return found

    # -- responses --------------------------------------------------------------------------------

    def correlation_id(self, frame: Frame) -> int:
        """Return a response's correlation id; raises WireError when it is not there."""
        segments = frame.segments
        if segments is not None and frame.together >= 8:
            return int32_at(segments.data, frame.begin + 4)
        return int(_INT32(frame.read(4, 4))[0])

    def response_body(self, frame: Frame, api_key: int, api_version: int) -> Body:
        """Read the wanted fields of the response to a request of that key and version."""
        plan = self._response_plan(api_key, api_version)
        at = 8
        if plan.header_version > 0 and _has_no_tags(frame):
            return self._body(frame, 9, plan)
        try:
            if plan.header_version > 0:
                at = _response_body_at(self.beginning(frame), plan.header_version)
            elif api_key == API_VERSIONS and _begins_with_code(frame, UNSUPPORTED_VERSION):
                plan = self._response_plan(api_key, 0)
        except WireError as error:
            kind = _failure(frame)
            is_cut = kind is AnomalyKind.MISSING_BYTES
            return Body(None, None, kind, NOT_ALL_THERE if is_cut else f"responseHeader: {error}")
        return self._body(frame, at, plan)

    # -- what of an unfinished message is needed --------------------------------------------------

    def skim_request(self, frame: Frame, header: RequestHeader) -> tuple[Ranges, int] | None:
        """Let an unfinished request go of what no field that is wanted needs.

        Returns what was kept, as :func:`.drop_unread_bytes`; None where
        nothing was let go of.
        """
        plan = self._request_plan(header.api_key, header.api_version)
        if plan.decode is not None and plan.tells_needs:
            return drop_unread_bytes(frame, header.body, plan.decode)
        return None

    def skim_response(
        self, frame: Frame, api_key: int, api_version: int
    ) -> tuple[Ranges, int] | None:
        """As :meth:`skim_request`, for the response to a request of that key and version."""
        plan = self._response_plan(api_key, api_version)
        at = _body_at(frame, plan)
        if plan.decode is not None and plan.tells_needs and at is not None:
            return drop_unread_bytes(frame, at, plan.decode)
        return None

    def needed_of_request(self, frame: Frame, header: RequestHeader) -> Ranges | None:
        """Return which bytes of a whole request the fields that are wanted need.

        None where that is not known: all of them.
        """
        plan = self._request_plan(header.api_key, header.api_version)
        if plan.decode is None or not plan.tells_needs or frame.missing_bytes:
            return None
        return byte_ranges_read(frame, header.body, plan.decode)

    def needed_of_response(self, frame: Frame, api_key: int, api_version: int) -> Ranges | None:
        """As :meth:`needed_of_request`, for the response to a request of that key and version."""
        plan = self._response_plan(api_key, api_version)
        if plan.decode is None or not plan.tells_needs or frame.missing_bytes:
            return None
        at = _body_at(frame, plan)
        return None if at is None else byte_ranges_read(frame, at, plan.decode)

    def first_records(self, view: memoryview, header: RequestHeader) -> tuple[int, int] | None:
        """Return where the first records of a request begin, and how long they are.

        ``view`` begins with the request, of which it need not hold all. None where there are no
        records, as far as it goes, and for a version that is not known. Slow: for a few.
        """
        api = self._catalog.api(header.api_key)
        if header.api_key != PRODUCE or api is None or not _knows(api, header.api_version):
            return None
        message = self._catalog.message(header.api_key, "request")
        head = view[: header.body + _RECORDS_WITHIN_BYTES]
        return first_records(message, header.api_version, head, header.body)

    def knows(self, api_key: int) -> bool:
        """Tell whether there is such an API."""
        last = self._last_request_plan
        if last is not None and last.key >> 16 == api_key:
            return last.definition is not None
        if api_key not in self._known:
            self._known[api_key] = self._catalog.api(api_key) is not None
        return self._known[api_key]

    # -- is this a message at all? ----------------------------------------------------------------

    def check_request(self, view: memoryview, header: RequestHeader, size: int) -> bool | None:
        """Tell whether a request's body consumes its frame exactly, in some layout.

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
            return _fits_also(self._superseded_check(header), here, header.body, size)
        except WireError:
            end = -1
        if size + 4 - end <= _PADDING_BYTES and not any(here[end:]):
            return True
        superseded = self._superseded_check(header)
        return False if superseded is None else _fits_also(superseded, here, header.body, size)

    def takes_up(self, frame: Frame, header: RequestHeader) -> bool:
        """As :meth:`check_request`, for a frame that is all there and lies together."""
        check = self._check(header.api_key, header.api_version)
        if check is None:
            return False
        if check.run(frame, header.body) is None:
            left = frame.length - check.end
            if left <= _PADDING_BYTES and not any(frame.read(check.end, left)):
                return True
        superseded = self._superseded_check(header)
        return superseded is not None and _fills(superseded, frame, header.body)

    def check_response(
        self, view: memoryview, size: int, api_key: int, api_version: int
    ) -> bool | None:
        """As :meth:`check_request`, for the response to a request of that key and version."""
        plan = self._response_plan(api_key, api_version)
        if plan.decode is None or not plan.known:
            return None
        here = view[: size + 4]
        at = 8
        try:
            at = _response_body_at(here, plan.header_version)
            decode = plan.decode
            if api_key == API_VERSIONS and _INT16(here, at)[0] == UNSUPPORTED_VERSION:
                decode = self._response_plan(api_key, 0).decode or decode
            _, end = decode(here, at, 0, None)
        except (Truncated, struct.error):
            return _fits_also(plan.superseded, here, at, size)
        except WireError:
            end = -1
        if end == size + 4 or plan.superseded is None:
            return bool(end == size + 4)
        return _fits_also(plan.superseded, here, at, size)

    def confirms_request(self, frame: Frame, header: RequestHeader) -> bool:
        """Tell whether a request's body takes up its whole frame, as far as the frame is there.

        True too where the version is not known: there is no telling.
        """
        check = self._check(header.api_key, header.api_version)
        if check is None:
            return frame.missing_bytes == 0
        return _fills(check, frame, header.body) or _fills(
            self._superseded_check(header), frame, header.body
        )

    def confirms_response(self, frame: Frame, api_key: int, api_version: int) -> bool:
        """As :meth:`confirms_request`, for the response to a request of that key and version."""
        plan = self._response_plan(api_key, api_version)
        if plan.decode is None or not plan.known:
            return frame.missing_bytes == 0
        at = _body_at(frame, plan)
        return at is not None and (
            _fills(plan.decode, frame, at) or _fills(plan.superseded, frame, at)
        )

    # -- what was read, as plain values -----------------------------------------------------------

    def body_state(self, message: Message, api_key: int | None, kind: Kind) -> State | None:
        """As :class:`~kanalyze.kafka.session.exchange.Bodies`: in which layout, and the tape."""
        taped, version = message.taped, message.version
        if taped is None or version is None or api_key is None:
            return None
        plan = self._plan(api_key, version, kind)
        is_superseded = plan.superseded is not None and taped.is_of(plan.superseded.shape)
        return is_superseded, taped.state()

    def take_up_body(
        self, message: Message, state: object, api_key: int | None, kind: Kind
    ) -> None:
        """As :class:`~kanalyze.kafka.session.exchange.Bodies`."""
        if state is None:
            return
        version = message.version
        is_superseded, taped = fields(state, "bt")
        if api_key is None or version is None or not _is_known(self._catalog, api_key, version):
            raise ValueError("a body of an API that nobody knows")
        plan = self._plan(api_key, version, kind)
        decode = plan.superseded if is_superseded else plan.decode
        if decode is None:
            raise ValueError("a body in a layout that nobody knows")
        message.taped = decode.taped_from_state(taped)

    def _plan(self, api_key: int, version: int, kind: Kind) -> _Plan:
        if kind == "request":
            return self._request_plan(api_key, version)
        return self._response_plan(api_key, version)

    # -- how --------------------------------------------------------------------------------------

    def _check(self, api_key: int, version: int) -> BodyDecoder | None:
        found = self._checks.get((api_key, version))
        if found is None and (api_key, version) not in self._checks:
            api = self._catalog.api(api_key)
            if api is not None and _knows(api, version):
                found = self._decoders.get(api_key, "request", version, self._nothing)
            self._checks[api_key, version] = found
        return found

    def _superseded_check(self, header: RequestHeader) -> BodyDecoder | None:
        return self._decoders.superseded(
            header.api_key, "request", header.api_version, self._nothing
        )

    def _request_plan(self, api_key: int, version: int) -> _Plan:
        key = _key_of(api_key, version)
        last = self._last_request_plan
        if last is not None and last.key == key:
            return last
        plan = self._request_plans.get(key)
        if plan is None:
            plan = self._make_plan(api_key, version, "request")
            _remember(self._request_plans, key, plan)
        self._last_request_plan = plan
        return plan

    def _response_plan(self, api_key: int, version: int) -> _Plan:
        key = _key_of(api_key, version)
        last = self._last_response_plan
        if last is not None and last.key == key:
            return last
        plan = self._response_plans.get(key)
        if plan is None:
            plan = self._make_plan(api_key, version, "response")
            _remember(self._response_plans, key, plan)
        self._last_response_plan = plan
        return plan

    def _make_plan(self, api_key: int, version: int, kind: Kind) -> _Plan:
        api, key = self._catalog.api(api_key), _key_of(api_key, version)
        if api is None:
            header_version = 1 if kind == "request" else 0
            return _Plan(key, header_version, None, None, None, known=False)
        definition = self._catalog.message(api_key, kind)
        if kind == "request":
            header_version = self._catalog.request_header_version(api_key, version)
        else:
            header_version = self._catalog.response_header_version(api_key, version)
        read_as = min(version, api.versions.highest)
        if version < api.versions.lowest:
            return _Plan(key, header_version, None, None, definition, known=False)
        wanted = self._wanted(api_key, kind)
        decode = self._decoders.get(api_key, kind, read_as, wanted)
        superseded = self._decoders.superseded(api_key, kind, version, wanted)
        known = read_as == version
        return _Plan(key, header_version, decode, read_as, definition, superseded, known=known)

    def _body(self, frame: Frame, at: int, plan: _Plan) -> Body:
        decode = plan.decode
        if decode is None and plan.definition is None:
            return Body(None, None, AnomalyKind.UNKNOWN_API, UNKNOWN_API)
        if decode is None:
            return _of_unknown_version(plan, None)
        wrong = decode.run(frame, at)
        if wrong is not None:
            if not plan.known:
                return _of_unknown_version(plan, None)
            found = self._by_superseded(plan, frame, at)
            if found is not None:
                return found
            kind = _failure(frame)
            if kind is AnomalyKind.MISSING_BYTES:
                return Body(None, None, kind, NOT_ALL_THERE)
            return Body(None, None, kind, self._explained(frame, at, plan, str(wrong)))
        end = decode.end
        exact = end == frame.length
        if not exact and plan.superseded is not None:
            found = self._by_superseded(plan, frame, at)
            if found is not None:
                return found
        if not plan.known:
            return _of_unknown_version(plan, self._take(decode) if exact else None)
        taped = self._take(decode)
        if exact:
            return _read_body(taped, plan.version)
        return Body(taped, plan.version, AnomalyKind.TRAILING_BYTES, f"byte {end}: {LEFT_OVER}")

    def _take(self, decode: BodyDecoder) -> Taped:
        """Take what was decoded last, onto the tape that is being written."""
        taped = decode.take(self._tape)
        self._tape = taped.tape
        return taped

    def _by_superseded(self, plan: _Plan, frame: Frame, at: int) -> Body | None:
        """Read a body in the layout that some releases had; None where that does not fit."""
        decode = plan.superseded
        if decode is None or decode.run(frame, at) is not None:
            return None
        return Body(self._take(decode), plan.version, None) if decode.end == frame.length else None

    def _explained(self, frame: Frame, at: int, plan: _Plan, reason: str) -> str:
        """Say where a malformed body cannot be read, and why; the reason alone where it is large.

        Positions are those of ``decode``: they count from the first byte of the size prefix.
        """
        length = frame.length
        if length <= _REMEMBERED_BYTES and frame.together == length:
            # One that a client or a broker writes wrong it mostly writes again and again.
            key = (plan, at, bytes(frame.read(at, length - at)))
            known = self._explanations.get(key)
            if known is None:
                known = self._found_failure(frame, at, plan, reason)
                if len(self._explanations) < _MOST_REMEMBERED:
                    self._explanations[key] = known
            return known
        return self._found_failure(frame, at, plan, reason)

    def _found_failure(self, frame: Frame, at: int, plan: _Plan, reason: str) -> str:
        length = frame.length
        if length > min(_LARGEST_EXPLAINED_BYTES, _EXPLAINED_BYTES - self._explained_bytes):
            return reason
        try:
            data = frame.read(0, length)
        except WireError:  # parts that nobody wants were let go of
            return reason
        self._explained_bytes += length
        assert plan.definition is not None
        assert plan.version is not None
        path, position, reason = found_failure(plan.definition, plan.version, data, at, reason)
        return f"{path}, byte {position}: {reason}" if path else f"byte {position}: {reason}"


def _read_body(taped: Taped, version: int | None) -> Body:
    """Make a :class:`Body` that was read to the end, faster."""
    made = Body.__new__(Body)
    made.taped = taped
    made.read_as = NO_VERSION if version is None else version
    made.problem = None
    made.detail = ""
    return made


def _key_of(api_key: int, version: int) -> int:
    """Return one number for both, each of 16 bits."""
    return api_key * 65536 + (version & 0xFFFF)


def _of_unknown_version(plan: _Plan, taped: Taped | None) -> Body:
    """Return what became of a body in a version that is not in the tables."""
    assert plan.definition is not None
    version = None if taped is None else plan.version
    detail = unknown_version(plan.definition)
    return Body(taped, version, AnomalyKind.UNKNOWN_API_VERSION, detail)


def _begins_with_code(frame: Frame, code: int) -> bool:
    """Tell whether the body of a response without tags begins with an error code.

    Raises WireError where its bytes are not there.
    """
    if frame.length < _CODE_AT + 2:
        return False
    segments = frame.segments
    if segments is not None and frame.together >= _CODE_AT + 2:
        return int16_at(segments.data, frame.begin + _CODE_AT) == code
    return bool(_INT16(frame.read(_CODE_AT, 2))[0] == code)


def _has_no_tags(frame: Frame) -> bool:
    """Tell of a response with a header of version 1 whether that ends as nearly all do."""
    segments = frame.segments
    return segments is not None and frame.together > 8 and segments.data[frame.begin + 8] == 0


def _knows(api: Api, version: int) -> bool:
    return bool(api.versions.lowest <= version <= api.versions.highest)


def _is_known(catalog: Catalog, api_key: int, version: int) -> bool:
    api = catalog.api(api_key)
    return api is not None and _knows(api, version)


_MOST_PLANS = 4096


def _remember(plans: dict[int, _Plan], key: int, plan: _Plan) -> None:
    # Keys and versions come from the wire: 2^32 of them would fit in a hostile capture.
    if len(plans) >= _MOST_PLANS:
        plans.clear()
    plans[key] = plan


def _failure(frame: Frame) -> AnomalyKind:
    return AnomalyKind.MISSING_BYTES if frame.missing_bytes else AnomalyKind.MALFORMED_BODY


def _response_body_at(view: memoryview, header_version: int) -> int:
    """Return where the body of a response begins; raises as ``parse_response_header``."""
    return parse_response_header(view, 4, len(view), header_version).body


def _body_at(frame: Frame, plan: _Plan) -> int | None:
    """Return where the body of a response begins; None when its header cannot be read."""
    try:
        return _response_body_at(frame.window(0), plan.header_version)
    except WireError:
        return None


def _fits_also(decode: BodyDecoder | None, here: memoryview, at: int, size: int) -> bool | None:
    """Tell whether a body fits a layout that some releases had, where it does not the other.

    None where the bytes end too early to tell.
    """
    if len(here) < size + 4:
        return None
    if decode is None:
        return False
    try:
        _, end = decode(here, at, 0, None)
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


def _acks(frame: Frame, at: int, version: int) -> int:
    """Return ``acks``; only a transactional id stands before it."""
    segments = frame.segments
    if segments is not None:
        data, begin, limit = segments.data, frame.begin + at, frame.begin + frame.together
    else:
        data, begin = frame.part(at), 0
        limit = len(data)
    end = _acks_at(data, begin, limit, version)
    if end + 2 > limit:
        data = frame.read(at, end - begin + 2)
        end = _acks_at(data, 0, len(data), version)
    return int16_at(data, end)


def _acks_at(data: memoryview, at: int, limit: int, version: int) -> int:
    """Return where ``acks`` is in a body at ``data[at:limit]``, as far as its bytes are there."""
    if version < 3:
        return at
    if version < 9:
        return at + 2 + (max(int16_at(data, at), 0) if at + 2 <= limit else 0)
    width = varint_width(data, at, limit)
    if width < 0:
        raise Malformed("a varint of more than 5 bytes")
    if width == 0:
        return at + _LONGEST_VARINT_BYTES
    return at + width + max(varint_at(data, at) - 1, 0)
