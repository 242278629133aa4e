"""How the messages of each API version are read, and whether bytes are such a message.

In: the catalog, and which fields of a message are selected. Out: a :class:`DecodePlan` for a key
and a version; a verdict on bytes that may be a message, whose body has to take up the frame to the
byte; single fields that are needed to follow a connection, and the positions of SASL tokens.
Callers keep no secret.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kanalyze.common.caches import remember
from kanalyze.kafka.codec.compiler import Projection
from kanalyze.kafka.framing.frame import parse_response_header
from kanalyze.kafka.wire import MissingBytes, Truncated, WireError

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    PRODUCE = 0
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    SASL_AUTHENTICATE = 36
    UNSUPPORTED_VERSION = 35
    from kanalyze.kafka.framing.frame import rest_of

if TYPE_CHECKING:
    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import MessageSpec as Definition

_MAX_PLANS = 4096
"""Of each kind; keys and versions of APIs come from the wire."""

MessageKind = Literal["request", "response"]


class FieldSelection(Protocol):
    """Selects the fields of a message that are read."""

    def __call__(self, api_key: int, kind: MessageKind) -> Projection:
        """Return the selected fields of the API's requests or responses."""
        ...


class DecodePlan:
    """How the messages of one API version are read; made once."""

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
        """API key and version in one number: see :func:`_key_of`."""
        self.header_version = header_version
        self.decode = decode
        self.version = version
        """The version that ``decode`` is for: the newest known one if the message's version is
        unknown."""
        self.known = known
        self.definition = definition
        """None for an unknown API."""
        self.superseded = superseded
        """Reads the layout that some releases gave the version."""
        self.failures: dict[tuple[int, bytes], Any] | None = None
        """What is wrong with small messages that could not be read, by their bytes from some
        position on (``FailureDetails``)."""

    @property
    def reads_all_that_is_needed(self) -> bool:
        """True if the bytes that ``decode`` reads of a message are all that will be read."""
        return self.known and self.superseded is None


class DecodePlans:
    """Makes plans when first needed, and keeps them."""

    def __init__(self, catalog: Catalog, decoders: Decoders, selection: FieldSelection) -> None:
        self._catalog = catalog
        self._decoders = decoders
        self._selection = selection
        self._requests: dict[int, DecodePlan] = {}
        self._responses: dict[int, DecodePlan] = {}
        self._last_request: DecodePlan | None = None
        self._last_response: DecodePlan | None = None
        """The next message mostly has the API and version of the last one."""
        self._known_apis: dict[int, bool] = {}

    def request(self, api_key: int, version: int) -> DecodePlan:
        """Return the plan for the requests of an API version."""
        key = _key_of(api_key, version)
        last = self._last_request
        if last is not None and last.key == key:
            return last
        plan = self._requests.get(key)
        if plan is None:
            plan = self._make(api_key, version, "request")
            remember(self._requests, key, plan, _MAX_PLANS)
        self._last_request = plan
        return plan

    def response(self, api_key: int, version: int) -> DecodePlan:
        """Return the plan for the responses of an API version."""
        key = _key_of(api_key, version)
        last = self._last_response
        if last is not None and last.key == key:
            return last
        plan = self._responses.get(key)
        if plan is None:
            plan = self._make(api_key, version, "response")
            remember(self._responses, key, plan, _MAX_PLANS)
        self._last_response = plan
        return plan

    def of_kind(self, api_key: int, version: int, kind: MessageKind) -> DecodePlan:
        """Return the plan for the requests or the responses of an API version."""
        if kind == "request":
            return self.request(api_key, version)
        return self.response(api_key, version)

    def older(
        self, api_key: int, version: int, kind: MessageKind, *, is_superseded: bool
    ) -> BodyDecoder:
        """Return what loads the bodies in states of the last format; see ``Decoders.older``."""
        selected = self._selection(api_key, kind)
        return self._decoders.older(api_key, kind, version, selected, is_superseded=is_superseded)

    def has_api(self, api_key: int) -> bool:
        """Return true if the API is known."""
        last = self._last_request
        if last is not None and last.key >> 16 == api_key:
            return last.definition is not None
        if api_key not in self._known_apis:
            self._known_apis[api_key] = self._catalog.api(api_key) is not None
        return self._known_apis[api_key]

    def has_version(self, api_key: int, version: int) -> bool:
        """Return true if the API is known in this version."""
        api = self._catalog.api(api_key)
        return api is not None and api.versions.lowest <= version <= api.versions.highest

    def _make(self, api_key: int, version: int, kind: MessageKind) -> DecodePlan:
        api, key = self._catalog.api(api_key), _key_of(api_key, version)
        if api is None:
            header_version = 1 if kind == "request" else 0
            return DecodePlan(key, header_version, None, None, None, known=False)
        definition = self._catalog.message(api_key, kind)
        if kind == "request":
            header_version = self._catalog.request_header_version(api_key, version)
        else:
            header_version = self._catalog.response_header_version(api_key, version)
        if version < api.versions.lowest:
            return DecodePlan(key, header_version, None, None, definition, known=False)
        read_as = min(version, api.versions.highest)
        selected = self._selection(api_key, kind)
        decode = self._decoders.get(api_key, kind, read_as, selected)
        superseded = self._decoders.superseded(api_key, kind, version, selected)
        known = read_as == version
        return DecodePlan(key, header_version, decode, read_as, definition, superseded, known=known)


def _key_of(api_key: int, version: int) -> int:
    """Return one number for both, which have 16 bits each."""
    return api_key * 65536 + (version & 0xFFFF)


_INT16 = struct.Struct(">h").unpack_from
_PADDING_BYTES = 4
"""librdkafka's ApiVersions v0 requests have four zero bytes after the body."""


class MessageChecks:
    """Checks requests and responses with decoders that read no field."""

    def __init__(self, catalog: Catalog, decoders: Decoders) -> None:
        self._plans = DecodePlans(catalog, decoders, _no_fields)

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
        plan = self._plans.request(header.api_key, header.api_version)
        return _fits(plan, view, header.body, size + 4, _PADDING_BYTES)

    def response_fits(
        self, view: memoryview, size: int, api_key: int, api_version: int
    ) -> bool | None:
        """As :meth:`request_fits`, for the response to a request of that key and version."""
        plan, end = self._plans.response(api_key, api_version), min(len(view), size + 4)
        if not plan.known:
            return None
        try:
            at = parse_response_header(view, 4, end, plan.header_version).body
        except Truncated:
            return None if end < size + 4 else False
        except WireError:
            return False
        if api_key == API_VERSIONS:
            if at + 2 > end:
                return None if end < size + 4 else False
            if _INT16(view, at)[0] == UNSUPPORTED_VERSION:
                plan = self._plans.response(api_key, 0)
        return _fits(plan, view, at, size + 4, 0)

    def whole_request_fits(self, frame: Frame, header: RequestHeader) -> bool:
        """As :meth:`request_fits`, for a frame that is complete and contiguous."""
        plan = self._plans.request(header.api_key, header.api_version)
        check = plan.decode
        if check is None or not plan.known:
            return False
        if check.run(frame, header.body) is None and is_padding(frame, check.end):
            return True
        return _fills(plan.superseded, frame, header.body)

    def confirms_request(self, frame: Frame, header: RequestHeader) -> bool:
        """Return true if a request's body takes up its frame, as far as its bytes are there.

        True too for a complete request of an unknown version: nothing contradicts it.
        """
        plan = self._plans.request(header.api_key, header.api_version)
        return _is_confirmed(plan, frame, header.body)

    def confirms_response(self, frame: Frame, api_key: int, api_version: int) -> bool:
        """As :meth:`confirms_request`, for the response to a request of that key and version."""
        plan = self._plans.response(api_key, api_version)
        return _is_confirmed(plan, frame, response_body_at(frame, plan.header_version))


def _no_fields(api_key: int, kind: MessageKind) -> Projection:  # noqa: ARG001 - none of any
    return Projection.of()


def _fits(
    plan: DecodePlan, view: memoryview, at: int, length: int, padding_bytes: int
) -> bool | None:
    """Return true if a body takes up a frame of ``length``, with some zero bytes at most after it.

    None if the bytes end too early to tell, or the version is not known.
    """
    if plan.decode is None or not plan.known:
        return None
    window = view[:length]
    is_cut = len(window) < length
    try:
        end = plan.decode.read(window, at)
        if length - end <= padding_bytes and not any(window[end:]):
            return True
    except Truncated:
        if is_cut:
            return None
    except WireError:
        pass
    if plan.superseded is None:
        return False
    if is_cut:
        return None
    try:
        return plan.superseded.read(window, at) == length
    except WireError:
        return False


def _is_confirmed(plan: DecodePlan, frame: Frame, at: int | None) -> bool:
    if plan.decode is None or not plan.known:
        return frame.missing_bytes == 0
    return at is not None and (_fills(plan.decode, frame, at) or _fills(plan.superseded, frame, at))


def is_padding(frame: Frame, at: int) -> bool:
    """Return true if the bytes from ``at`` on are the padding that some clients write, or none."""
    size = frame.length - at
    if size == 0 or size > _PADDING_BYTES:
        return size == 0
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


_MAX_TOKEN_BYTES = 1 << 16
"""A larger SaslAuthenticate message counts as a token as a whole. A Kerberos ticket takes some
kilobytes."""


_FIRST_WITH_SOFTWARE = 3
"""The version of ApiVersions that has the name and the version of the client's software."""
_REMEMBERED_BYTES, _MAX_REMEMBERED = 256, 256
"""Up to which size in bytes, and for how many different bodies, these are remembered."""


class SessionFields:
    """Reads named fields apart from the selected ones, with decoders made when first needed."""

    def __init__(self, catalog: Catalog, plans: DecodePlans, decoders: Decoders) -> None:
        self._catalog = catalog
        self._plans = plans
        self._decoders = decoders
        self._remembered: dict[tuple[int, bytes], tuple[str, str] | None] = {}

    def software(self, frame: Frame, header: RequestHeader) -> tuple[str, str] | None:
        """Return name and version of the client's software in an ApiVersions request.

        None where there are none (before version 3), or they cannot be read. All clients of one
        software send the same bytes, so they are remembered.
        """
        if header.api_version < _FIRST_WITH_SOFTWARE:
            return None
        size = frame.length - header.body
        if size > _REMEMBERED_BYTES or frame.missing_bytes:
            return self._software(frame, header)
        key = (header.api_version, rest_of(frame, header.body))
        names = self._remembered.get(key)
        if names is not None:
            return names
        return remember(self._remembered, key, self._software(frame, header), _MAX_REMEMBERED)

    def _software(self, frame: Frame, header: RequestHeader) -> tuple[str, str] | None:
        names = self.of_request(frame, header, "ClientSoftwareName", "ClientSoftwareVersion")
        return None if names is None else (names[0], names[1])

    def of_request(
        self, frame: Frame, header: RequestHeader, *paths: str
    ) -> tuple[Any, ...] | None:
        """Return the values of named fields of a request; None when they cannot be read."""
        return self._read(frame, header.api_key, header.api_version, "request", header.body, paths)

    def of_response(
        self, frame: Frame, api_key: int, api_version: int, *paths: str
    ) -> tuple[Any, ...] | None:
        """As :meth:`of_request`, for the response to a request of that key and version."""
        at = response_body_at(frame, self._plans.response(api_key, api_version).header_version)
        if at is None:
            return None
        return self._read(frame, api_key, api_version, "response", at, paths)

    def token_in_request(self, frame: Frame, header: RequestHeader) -> tuple[int, int]:
        """Return the frame positions of the token in a SaslAuthenticate request.

        Returns the whole body if it cannot be read to the byte, or is incomplete.
        """
        return self._token(frame, "request", header.api_version, header.body)

    def token_in_response(self, frame: Frame, api_version: int) -> tuple[int, int]:
        """As :meth:`token_in_request`, for the response to a request of that version."""
        plan = self._plans.response(SASL_AUTHENTICATE, api_version)
        at = response_body_at(frame, plan.header_version)
        return self._token(frame, "response", api_version, 8 if at is None else at)

    def _read(
        self,
        frame: Frame,
        api_key: int,
        version: int,
        kind: MessageKind,
        at: int,
        paths: tuple[str, ...],
    ) -> tuple[Any, ...] | None:
        if not self._plans.has_version(api_key, version):
            return None
        decode = self._decoders.get(api_key, kind, version, Projection.of(*paths))
        try:
            return tuple(decode.of_frame(frame, at))
        except WireError:
            return None

    def _token(self, frame: Frame, kind: MessageKind, version: int, at: int) -> tuple[int, int]:
        body = at, frame.length
        is_whole = frame.end_packet is not None and not frame.missing_bytes
        if not is_whole or frame.length > _MAX_TOKEN_BYTES:
            return body
        if not self._plans.has_version(SASL_AUTHENTICATE, version):
            return body
        from kanalyze.kafka.codec.interpreter import trace_message

        message = self._catalog.message(SASL_AUTHENTICATE, kind)
        trace = trace_message(message, version, frame.read(0, frame.length), at)
        fields = {node.name: node for node in trace.root.children}
        token = fields.get("AuthBytes")
        # An unknown tag may contain anything.
        is_read = trace.pos == frame.length and "_taggedFields" not in fields
        if trace.failure is not None or not is_read or token is None or token.end is None:
            return body
        return token.end - len(token.value or b""), token.end
