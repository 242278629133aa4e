"""Decodes all fields of the messages of an exchange.

In: an :class:`~kanalyze.kafka.session.exchange.Exchange` whose messages keep the bytes of their
frames. Out: a :class:`DecodedMessage` for each, with what must be hidden in it (see
:mod:`kanalyze.decoding.secrets`), or the :class:`Problem` that prevented it.

The session stage decides the version: an ApiVersions response with error 35 has a body of version
0, whatever version was requested. A version newer than the definitions is read as the newest known
one, if that consumes the frame exactly. Some releases gave a version other fields; such a version
is read with those fields only if they alone consume the frame exactly.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kanalyze.common.caches import remember
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.decoding.secrets import Redactor, hide
from kanalyze.kafka.codec.compiler import Projection
from kanalyze.kafka.codec.failures import (
    LEFT_OVER,
    NOT_ALL_THERE,
    UNKNOWN_API,
    json_path,
    locate_failure,
    unknown_version,
    with_probable_error,
)
from kanalyze.kafka.codec.interpreter import read_message
from kanalyze.kafka.framing.frame import (
    RequestHeader,
    parse_request_header,
    parse_response_header,
    plain_body,
)
from kanalyze.kafka.other_wires import other_wire
from kanalyze.kafka.wire import MissingBytes, WireError
from kanalyze.model.anomalies import AnomalyKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.decoding.secrets import RedactionPlan
    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.codec.interpreter import TraceNode
    from kanalyze.kafka.codec.machine import Tape
    from kanalyze.kafka.codec.values import BodyDecoder, EncodedFields
    from kanalyze.kafka.schema.catalog import Catalog, Kind
    from kanalyze.kafka.schema.schema_ast import MessageSpec as Definition
    from kanalyze.kafka.session.exchange import Exchange, Message

__all__ = [
    "PREFIX_BYTES",
    "BodyLocation",
    "BodyReader",
    "DecodedExchange",
    "DecodedMessage",
    "ForwardedExchange",
    "Problem",
    "UsualForm",
    "json_path",
]

PREFIX_BYTES = 4
"""Size of a frame's size prefix in bytes."""

_API_VERSIONS = 18
_ENVELOPE = 58
_UNSUPPORTED_VERSION = 35
_NOTHING = Projection.of()
EVERYTHING = Projection((), everything=True)
"""Select every field. Of records, select only the batch headers, so that no record is copied."""
_MAX_PLANS = 4096
"""Keys and versions of APIs come from the wire."""
_INT16 = struct.Struct(">h").unpack_from
_SIZE = struct.Struct(">i").pack
_HEAD = struct.Struct(">hh").pack


class Problem(NamedTuple):
    """Why some bytes of a message were not decoded."""

    kind: AnomalyKind
    """The kind of anomaly; ``TRAILING_BYTES`` if bytes were left over after the message."""
    frame_offset: int
    """Position in the frame of the first byte that was not decoded; the size prefix begins at 0."""
    size_in_bytes: int
    """Number of bytes from there to the end of the frame."""
    field_path: str | None
    """The field that could not be read, such as ``topics[0].name``; None if unknown."""
    reason: str
    """A short text; never bytes from the wire."""


class BodyLocation(NamedTuple):
    """Where a body begins in its frame, and which definition it has."""

    definition: Definition | None
    """None for an unknown API."""
    version: int | None
    """The version to read the body as; None if there is none to try."""
    known: bool
    """Whether the definition has the version of the request."""
    header_version: int
    body: int
    """Position in the frame of the first byte of the body."""


class UsualForm(NamedTuple):
    """The form of the messages of a version, if that is the same for all of them."""

    definition: Definition
    version: int
    known: bool
    header_version: int
    head: bytes
    """The first bytes of a request (API key and version); empty for responses."""


class DecodedMessage(NamedTuple):
    """One message, as far as it could be decoded."""

    definition: Definition | None
    version: int | None
    """The version that ``body`` was read as."""
    body: EncodedFields | None
    """All fields, **secrets included**; None if the body could not be decoded."""
    header_tags: list[tuple[int, bytes]]
    """Tagged fields of the header, as (tag, value). No Kafka release defines any."""
    problem: Problem | None
    secrets: RedactionPlan | None = None
    """What to hide in ``body``; None if it has no secrets."""
    undefined_values: dict[str, Any] | None = None
    """The fields of a message of another wire; ``body`` is None then, because no definition
    describes such messages."""

    @property
    def values(self) -> dict[str, Any] | None:
        """Return all fields as new Python values, with secrets replaced by text.

        They have the form that ``BodyDecoder`` gives with :data:`EVERYTHING`.
        None if the body could not be decoded.
        """
        if self.body is None:
            return self.undefined_values
        values: dict[str, Any] = self.body.values()
        if self.secrets is not None:
            hide(values, self.secrets, force=False)
        return values


class DecodedExchange(NamedTuple):
    """The decoded messages of an exchange; None for a message that was not captured."""

    request: DecodedMessage | None
    response: DecodedMessage | None
    forwarded: ForwardedExchange | None
    """The request inside an Envelope, which a broker forwarded to the controller (KIP-590)."""


class ForwardedExchange(NamedTuple):
    """A request inside an Envelope, with the response inside the Envelope's response."""

    header: RequestHeader
    request: DecodedMessage
    response: DecodedMessage | None
    request_data: bytes
    """The request as a frame. Its size prefix was not on the wire."""
    response_data: bytes | None


class _MessagePlan(NamedTuple):
    """How to decode the messages of a version, if that is the same for all of them."""

    definition: Definition
    version: int
    header_version: int
    head: bytes
    """The first bytes of a request (API key and version); empty for responses."""
    decode: BodyDecoder
    secrets: RedactionPlan | None


class BodyReader:
    """Decodes messages. It compiles each decoder when it is first needed."""

    def __init__(self, catalog: Catalog, decoders: Decoders) -> None:
        self.catalog = catalog
        self._decoders = decoders
        self._redactors: dict[tuple[int, Kind], Redactor] = {}
        self._plans: dict[tuple[int, int, Kind], _MessagePlan | None] = {}
        self._tape: Tape | None = None
        """The tape that the last message was copied to; it may have room for more."""

    def exchange(self, exchange: Exchange) -> DecodedExchange:
        """Decode both messages of an exchange; raises nothing, whatever the bytes are."""
        if exchange.wire != "kafka":
            request = _undefined(exchange, exchange.request, "request")
            return DecodedExchange(
                request, _undefined(exchange, exchange.response, "response"), None
            )
        key, version = exchange.api_key, exchange.api_version
        request = self._message(exchange.request, key, version, "request")
        response = self._message(exchange.response, key, version, "response")
        forwarded = self._forwarded(exchange) if key == _ENVELOPE else None
        return DecodedExchange(request, response, forwarded)

    def exchanges(self, exchanges: Iterable[Exchange]) -> Iterator[DecodedExchange]:
        """Decode exchanges one at a time, and release the bytes of each before the next.

        So a batch of many large exchanges takes little memory. Raises nothing, whatever the bytes
        are.
        """
        for exchange in exchanges:
            yield self.exchange(exchange)
            for message in (exchange.request, exchange.response):
                if message is not None:
                    message.data = None

    def locate_body(self, data: bytes, api_key: int, api_version: int, kind: Kind) -> BodyLocation:
        """Return where the body of a frame begins, and the version to decode it as.

        Raises WireError if the header cannot be read.
        """
        header_version, body = self._body_start(data, api_key, api_version, kind)
        api = self.catalog.api(api_key)
        if api is None:
            return BodyLocation(None, None, False, header_version, body)
        definition = self.catalog.message(api_key, kind)
        if kind == "response" and api_key == _API_VERSIONS and _is_unsupported(data, body):
            return BodyLocation(definition, 0, True, header_version, body)
        if api_version < api.versions.lowest:
            return BodyLocation(definition, None, False, header_version, body)
        version = min(api_version, api.versions.highest)
        superseded = self.catalog.superseded(api_key, kind, api_version)
        if superseded is not None and not self._fits(data, api_key, kind, version, body):
            decode = self._decoders.superseded(api_key, kind, version, _NOTHING)
            if decode is not None and _ends(decode, data, body):
                definition = superseded
        return BodyLocation(definition, version, version == api_version, header_version, body)

    def _fits(self, data: bytes, api_key: int, kind: Kind, version: int, body: int) -> bool:
        return _ends(self._decoders.get(api_key, kind, version, _NOTHING), data, body)

    def api_name(self, api_key: int) -> str:
        """Return the name of an API as in rows."""
        api = self.catalog.api(api_key)
        return f"Unknown{api_key}" if api is None else api.name

    def redactor(self, api_key: int, kind: Kind) -> Redactor:
        """Return the redactor of an API's messages; raises KeyError for an unknown API."""
        redactor = self._redactors.get((api_key, kind))
        if redactor is None:
            redactor = Redactor(self.catalog.message(api_key, kind))
            self._redactors[api_key, kind] = redactor
        return redactor

    # -- one message ------------------------------------------------------------------------------

    def _message(
        self, message: Message | None, api_key: int | None, version: int | None, kind: Kind
    ) -> DecodedMessage | None:
        if message is None:
            return None
        if api_key is None or version is None:
            return _orphan(message, 8)
        if message.data is None:
            return _missing(message)
        return self.message(message.data, api_key, version, kind)

    def message(self, data: bytes, api_key: int, api_version: int, kind: Kind) -> DecodedMessage:
        """Decode a frame, size prefix included; raises nothing, whatever the bytes are."""
        decoded = self._decoded(data, api_key, api_version, kind)
        if kind == "response" and decoded.problem is not None and decoded.body is None:
            reason = with_probable_error(
                decoded.problem.reason, self.catalog, api_key, api_version, data, len(data)
            )
            return decoded._replace(problem=decoded.problem._replace(reason=reason))
        return decoded

    def _decoded(self, data: bytes, api_key: int, api_version: int, kind: Kind) -> DecodedMessage:
        planned = self._decode_planned(data, api_key, api_version, kind)
        if planned is not None:
            return planned
        try:
            located = self.locate_body(data, api_key, api_version, kind)
        except WireError as error:
            at = PREFIX_BYTES
            problem = Problem(
                AnomalyKind.MALFORMED_BODY, at, len(data) - at, f"{kind}Header", str(error)
            )
            return _undecoded(None, problem)
        if located.definition is None or located.version is None:
            return _undecoded(located.definition, _unknown(located, len(data)))
        return self._body(data, api_key, kind, located)

    def _body(self, data: bytes, api_key: int, kind: Kind, located: BodyLocation) -> DecodedMessage:
        definition, version = located.definition, located.version
        if definition is None or version is None:
            return _undecoded(definition, _unknown(located, len(data)))
        decode = self._decoders.get(api_key, kind, version, EVERYTHING)
        if definition.releases:
            decode = self._decoders.superseded(api_key, kind, version, EVERYTHING) or decode
        tags: list[tuple[int, bytes]] = []
        try:
            tags = self._header_tags(data, kind, located)
            end = decode.read(data, located.body)
        except WireError as error:
            return _undecoded(definition, _failure(data, located, str(error)), tags)
        problem = None
        if end != len(data):
            if not located.known:
                return _undecoded(definition, _unknown(located, len(data)), tags)
            problem = _left_over(data, end)
        secrets = self.redactor(api_key, kind).plan
        return DecodedMessage(definition, version, self._drain(decode), tags, problem, secrets)

    def _drain(self, decode: BodyDecoder) -> EncodedFields:
        """Copy the values decoded last to ``_tape``, or to a new tape if it has no room."""
        drained = decode.take(self._tape)
        self._tape = drained.tape
        return drained

    # -- the usual case ---------------------------------------------------------------------------

    def _decode_planned(
        self, data: bytes, api_key: int, api_version: int, kind: Kind
    ) -> DecodedMessage | None:
        """Decode a frame whose header and body need no special rule; None for any other."""
        try:
            plan = self._plans[api_key, api_version, kind]
        except KeyError:
            key = api_key, api_version, kind
            plan = remember(self._plans, key, self._new_plan(*key), _MAX_PLANS)
        if plan is None:
            return None
        body = plain_body(data, plan.head, plan.header_version)
        if not body:
            return None
        try:
            end = plan.decode.read(data, body)
        except WireError:
            return None
        if end != len(data):
            return None
        values = self._drain(plan.decode)
        return DecodedMessage(plan.definition, plan.version, values, [], None, plan.secrets)

    def _new_plan(self, api_key: int, api_version: int, kind: Kind) -> _MessagePlan | None:
        """Return a plan equal to :meth:`locate_body`; None if the version depends on the bytes."""
        usual = self.usual_form(api_key, api_version, kind)
        if usual is None:
            return None
        return _MessagePlan(
            usual.definition,
            usual.version,
            usual.header_version,
            usual.head,
            self._decoders.get(api_key, kind, usual.version, EVERYTHING),
            self.redactor(api_key, kind).plan,
        )

    def usual_form(self, api_key: int, api_version: int, kind: Kind) -> UsualForm | None:
        """Return the form of messages as :meth:`locate_body` finds it, without their bytes.

        None if it depends on the bytes.
        """
        catalog, api, is_request = self.catalog, self.catalog.api(api_key), kind == "request"
        if api is None or api_version < api.versions.lowest:
            return None
        if catalog.superseded(api_key, kind, api_version) is not None or (
            api_key == _API_VERSIONS and not is_request
        ):
            return None
        version = min(api_version, api.versions.highest)
        version_of = catalog.request_header_version
        if not is_request:
            version_of = catalog.response_header_version
        return UsualForm(
            catalog.message(api_key, kind),
            version,
            version == api_version,
            version_of(api_key, api_version),
            _HEAD(api_key, api_version) if is_request else b"",
        )

    def _body_start(
        self, data: bytes, api_key: int, api_version: int, kind: Kind
    ) -> tuple[int, int]:
        if kind == "request":
            header = parse_request_header(data, PREFIX_BYTES, len(data), self.catalog)
            key, version = header.api_key, header.api_version
            if self.catalog.api(key) is None:
                return 1, header.body  # parse_request_header reads it as version 1
            return self.catalog.request_header_version(key, version), header.body
        version = self.catalog.response_header_version(api_key, api_version)
        if self.catalog.api(api_key) is None:
            version = 0
        return version, parse_response_header(data, PREFIX_BYTES, len(data), version).body

    def _header_tags(
        self, data: bytes, kind: Kind, located: BodyLocation
    ) -> list[tuple[int, bytes]]:
        # Nearly every tag section is empty and takes one byte.
        if located.header_version < (2 if kind == "request" else 1):
            return []
        end_without_tags = 4 + 4
        if kind == "request":
            end_without_tags = 4 + 10 + max(_INT16(data, 12)[0], 0)
        if located.body == end_without_tags + 1:
            return []
        header = self.catalog.header(kind)
        values, _ = read_message(header, located.header_version, data[: located.body], PREFIX_BYTES)
        tags: list[tuple[int, bytes]] = values.get("_taggedFields", [])
        return tags

    # -- Envelope ---------------------------------------------------------------------------------

    def _forwarded(self, exchange: Exchange) -> ForwardedExchange | None:
        """Decode the messages inside an Envelope; None if the first is not a request."""
        inner = self._inner(exchange.request, exchange.api_version, "request")
        if inner is None:
            return None
        try:
            header = parse_request_header(inner, PREFIX_BYTES, len(inner), self.catalog)
        except WireError:
            return None
        key, version = header.api_key, header.api_version
        answer = self._inner(exchange.response, exchange.api_version, "response")
        return ForwardedExchange(
            header,
            self.message(inner, key, version, "request"),
            None if answer is None else self.message(answer, key, version, "response"),
            inner,
            answer,
        )

    def _inner(self, message: Message | None, version: int | None, kind: Kind) -> bytes | None:
        """Return the message inside an Envelope's message as a frame; None if there is none."""
        if message is None or message.data is None or version is None:
            return None
        try:
            located = self.locate_body(message.data, _ENVELOPE, version, kind)
            if located.version is None:
                return None
            embedded = Projection.of("RequestData" if kind == "request" else "ResponseData")
            decode = self._decoders.get(_ENVELOPE, kind, located.version, embedded)
            (inner,), _ = decode(message.data, located.body)
        except WireError:
            return None
        return None if inner is None else _SIZE(len(inner)) + bytes(inner)


def _undefined(exchange: Exchange, message: Message | None, kind: Kind) -> DecodedMessage | None:
    """Decode a message of another wire, for which there is no definition."""
    if message is None:
        return None
    if exchange.request is None:
        return _orphan(message, PREFIX_BYTES)
    try:
        nodes = other_wire(exchange.wire).trace(exchange, kind)
    except MissingBytes:
        return _missing(message)
    except WireError as error:
        at, size = PREFIX_BYTES, message.length - PREFIX_BYTES
        return _undecoded(None, Problem(AnomalyKind.MALFORMED_BODY, at, size, None, str(error)))
    return DecodedMessage(None, 0, None, [], None, undefined_values=_values_of(nodes))


def _values_of(nodes: list[TraceNode]) -> dict[str, Any]:
    """Return nodes as a dict of JSON values, without size prefixes.

    Messages are replaced by their size in bytes, ``messagesSizeInBytes``.
    """
    values: dict[str, Any] = {}
    for node in nodes:
        if node.name == "size":
            continue
        if node.type == "messages":
            values["messagesSizeInBytes"] = node.value
        elif node.type.startswith("[]"):
            values[node.name] = [
                _values_of(child.children) if child.children else child.value
                for child in node.children
            ]
        else:
            values[node.name] = node.value
    return values


def _ends(decode: BodyDecoder, data: bytes, body: int) -> bool:
    """Return true if a body ends where its frame ends."""
    try:
        _, end = decode(data, body)
    except WireError:
        return False
    return end == len(data)


def _is_unsupported(data: bytes, body: int) -> bool:
    return len(data) >= body + 2 and _INT16(data, body)[0] == _UNSUPPORTED_VERSION


def _undecoded(
    definition: Definition | None, problem: Problem, tags: list[tuple[int, bytes]] | None = None
) -> DecodedMessage:
    return DecodedMessage(definition, None, None, tags or [], problem)


def _orphan(message: Message, body: int) -> DecodedMessage:
    text = "a response to a request that was not seen"
    size = message.length - body
    return _undecoded(None, Problem(AnomalyKind.ORPHAN_RESPONSE, body, size, None, text))


def _missing(message: Message) -> DecodedMessage:
    problem = Problem(AnomalyKind.MISSING_BYTES, 0, message.length, None, NOT_ALL_THERE)
    return _undecoded(None, problem)


def _unknown(located: BodyLocation, length: int) -> Problem:
    size = length - located.body
    if located.definition is None:
        return Problem(AnomalyKind.UNKNOWN_API, located.body, size, None, UNKNOWN_API)
    text = unknown_version(located.definition)
    return Problem(AnomalyKind.UNKNOWN_API_VERSION, located.body, size, None, text)


def _failure(data: bytes, located: BodyLocation, reason: str) -> Problem:
    """Return why a body could not be decoded; the interpreter finds the field."""
    if not located.known:
        return _unknown(located, len(data))
    path, pos = None, located.body
    if located.definition is not None and located.version is not None:
        path, pos, reason = locate_failure(located.definition, located.version, data, pos, reason)
    return Problem(AnomalyKind.MALFORMED_BODY, pos, len(data) - pos, path, reason)


def _left_over(data: bytes, end: int) -> Problem:
    return Problem(AnomalyKind.TRAILING_BYTES, end, len(data) - end, None, LEFT_OVER)
