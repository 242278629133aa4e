"""Reads requests and responses out of frames: the header, then the selected fields of the body.

In: a :class:`~kanalyze.kafka.framing.frame.Frame`, and for a response the API and version of its
request. Out: values, or what is wrong with the body; counts of the bytes of one connection.

Known pitfalls of the protocol are handled here and in ``decode_plans.py``:

- An ApiVersions request in a version that the broker does not know is answered with error 35 and
  a version 0 body.
- ``acks`` follows ``transactional_id`` from Produce v3 on.
- Some releases wrote other fields in a version that was still unstable. A body is read in their
  layout if that takes up the frame to the byte and the final layout does not.
- A version newer than the tables is read as the newest known one if that takes up the frame to the
  byte.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.plain_values import fields
from kanalyze.common.saved import Saved, save
from kanalyze.kafka.codec.byte_ranges_read import byte_ranges_read, byte_ranges_read_so_far
from kanalyze.kafka.codec.failures import (
    LEFT_OVER,
    NOT_ALL_THERE,
    UNKNOWN_API,
    locate_failure,
    unknown_version,
)
from kanalyze.kafka.codec.machine import Tape
from kanalyze.kafka.framing.frame import (
    RequestHeader,
    parse_request_header,
    parse_response_header,
)
from kanalyze.kafka.session.batch_checks import BatchCounts, checks_of, sum_up
from kanalyze.kafka.session.decode_plans import (
    DecodePlans,
    MessageChecks,
    SessionFields,
    is_padding,
    response_body_at,
)
from kanalyze.kafka.session.events import frame_anomaly
from kanalyze.kafka.session.whole_messages import WholeMessages
from kanalyze.kafka.wire import WireError
from kanalyze.model.anomalies import AnomalyKind

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import (
        cython,  # addresses of structs are the structs
        start_of,
    )
    from kanalyze.kafka.codec.machine import int16_at
    from kanalyze.kafka.framing.frame import request_header_of, rest_of
    from kanalyze.kafka.session.decode_plans import API_VERSIONS, PRODUCE, UNSUPPORTED_VERSION
    from kanalyze.kafka.session.exchange import NO_API, NO_VERSION
    from kanalyze.kafka.session.whole_messages import (
        LARGEST_BODY_BYTES,
        NOT_THERE,
        acks_at,
        has_checked_batches,
    )

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.codec.byte_ranges_read import Ranges
    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.framing.framer import CutFrames
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.batch_checks import BatchChecks
    from kanalyze.kafka.session.decode_plans import DecodePlan, FieldSelection, MessageKind
    from kanalyze.kafka.session.events import ConnectionEvents
    from kanalyze.kafka.session.exchange import Exchange, Message

_LARGEST_EXPLAINED_BYTES = 16 * 1024
_EXPLAINED_BYTES = 1 << 20
"""How many bytes of malformed messages the interpreter reads in all, at 5 us a byte. A capture may
contain nothing else; later messages get the reason without the field."""

_CODE_AT = 8
"""Position of an error code after a response header of version 0."""
_REMEMBERED_BYTES, _MAX_REMEMBERED = 256, 256
"""Up to which size in bytes, and for how many different messages, details are remembered."""


_MALFORMED, _MISSING = AnomalyKind.MALFORMED_BODY, AnomalyKind.MISSING_BYTES
"""To look up a member of an enumeration takes as long as to read a small body."""


class FailureDetails:
    """Explains malformed bodies; one for all connections.

    A client or a broker that writes a wrong message mostly writes it again and again, so what is
    said of small ones is remembered.
    """

    __slots__ = ("_catalog", "_explained_bytes", "_remembered")

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._explained_bytes = 0
        self._remembered = {True: 0, False: 0}
        """How many are remembered, by whether they are malformed: others need no explanation."""

    def remember(self, frame: Frame, at: int, plan: DecodePlan, body: DecodedBody) -> None:
        """Remember the result for a frame that could not be read, if it is small."""
        is_malformed = body.problem is _MALFORMED
        key = _rest_of(frame, at)
        if key is None or self._remembered[is_malformed] >= _MAX_REMEMBERED:
            return
        self._remembered[is_malformed] += 1
        if plan.failures is None:
            plan.failures = {}
        plan.failures[at, key] = body

    def with_guess(self, reason: str, frame: Frame, api_key: int, api_version: int) -> str:
        """Return why a response was not read, and which error it probably has."""
        from kanalyze.kafka.codec.failures import with_probable_error  # imported late: rare

        try:
            data = MessageReader.beginning(frame)[: frame.length]
        except WireError:  # the first bytes are missing
            return reason
        return with_probable_error(reason, self._catalog, api_key, api_version, data, frame.length)

    def explain(self, frame: Frame, at: int, plan: DecodePlan, reason: str) -> str:
        """Say where the body at ``at`` cannot be read, and why; the reason alone if it is large.

        Positions count from the first byte of the size prefix, as those of ``decode``.
        """
        length = frame.length
        if length > min(_LARGEST_EXPLAINED_BYTES, _EXPLAINED_BYTES - self._explained_bytes):
            return reason
        try:
            data = frame.read(0, length)
        except WireError:  # bytes that no field needs were dropped
            return reason
        self._explained_bytes += length
        assert plan.definition is not None
        assert plan.version is not None
        path, position, reason = locate_failure(plan.definition, plan.version, data, at, reason)
        return f"{path}, byte {position}: {reason}" if path else f"byte {position}: {reason}"


_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from
_LAST_WITHOUT_TAGS = 2
"""The last version of ApiVersions whose responses have a list of fixed-size items."""
_RECORDS_WITHIN_BYTES = 640
"""Within how many bytes of a Produce request's body the first records begin: only two names come
before them."""


class DecodedBody:
    """The result of decoding a body.

    ``decode``, which has the fields on its machine's tape until it reads another body, and
    ``version`` are None if nothing was read; ``problem`` says why, or that bytes were left over.
    ``read_as`` is the version for compiled modules, ``NO_VERSION`` in place of None.
    """

    def __init__(
        self,
        decode: BodyDecoder | None,
        version: int | None,
        problem: AnomalyKind | None,
        detail: str = "",
        left_over: int = 0,
    ) -> None:
        self.decode = decode
        self.read_as = NO_VERSION if version is None else version
        self.problem = problem
        self.detail = detail
        """Which field failed, and why, in words."""
        self.left_over = left_over
        """Number of bytes after the body that nothing is known of: padding does not count."""
        self.batches: BatchChecks | None = None
        """The checks of its batches of records; None if there are none, or none were checked."""

    @property
    def version(self) -> int | None:
        """The API version that it was read as; None when it was not read."""
        return None if self.read_as == NO_VERSION else self.read_as

    @property
    def values(self) -> Any:
        """The values of the selected fields; each access makes them again."""
        return None if self.decode is None else self.decode.reader.value(self.decode.shape)


class MessageReader:
    """Reads messages with decoders that are made when first needed, and kept."""

    def __init__(
        self,
        catalog: Catalog,
        decoders: Decoders,
        selection: FieldSelection,
        *,
        checks_crc: bool = False,
    ) -> None:
        """Make a reader of the selected fields; with ``checks_crc`` it checks batches of records.

        That takes about 1 s more for each GB of records: as long as all else that rows need.
        """
        self._catalog = catalog
        self._checks_crc = checks_crc
        self._plans = DecodePlans(catalog, decoders, selection)
        self._failures = FailureDetails(catalog)
        self.whole = WholeMessages(self._plans, checks_crc=checks_crc)
        self.checks = MessageChecks(catalog, decoders)
        self.fields = SessionFields(catalog, self._plans, decoders)

    def has_api(self, api_key: int) -> bool:
        """Return true if the API is known."""
        return self._plans.has_api(api_key)

    # -- requests ---------------------------------------------------------------------------------

    def request_header(self, frame: Frame) -> RequestHeader:
        """Read a request's header; its ``body`` is a frame position.

        Raises:
            WireError: the frame has no room for it, or its bytes are not there.
        """
        header = self.whole.header_of(frame)
        return self.parse_header(self.beginning(frame), frame.size) if header is None else header

    @staticmethod
    def beginning(frame: Frame) -> memoryview:
        """Return the first bytes of a frame, all of them if they are few.

        A frame in pieces is joined once for its header and its body. Raises WireError when the
        first bytes are missing.
        """
        view = frame.whole()
        return frame.window(0) if view is None else view

    def parse_header(self, view: memoryview, size: int) -> RequestHeader:
        """Read a request's header from the first bytes of a frame of ``size`` bytes.

        The key and the version need not be known ones. Raises WireError as
        :meth:`request_header` does.
        """
        return parse_request_header(view, 4, min(len(view), size + 4), self._catalog)

    def request_body(self, frame: Frame, header: RequestHeader) -> DecodedBody:
        """Read the selected fields of a request."""
        plan = self._plans.request(header.api_key, header.api_version)
        known = _known_failure(frame, header.body, plan)
        if known is not None:
            return known
        body = self._body(frame, header.body, plan)
        if body.read_as == NO_VERSION:
            self._failures.remember(frame, header.body, plan, body)
        elif self._checks_crc:
            _check_batches(body, frame, plan)
        return body

    def acks(self, frame: Frame, header: RequestHeader) -> int | None:
        """Return ``acks`` of a Produce request; None when it cannot be read."""
        try:
            return _acks(frame, header.body, header.api_version)
        except (WireError, struct.error, IndexError):
            return None

    # -- responses --------------------------------------------------------------------------------

    def correlation_id(self, frame: Frame) -> int:
        """Return a response's correlation id; raises WireError when it is not there."""
        return int(_INT32(frame.read(4, 4))[0])

    def response_body(self, frame: Frame, api_key: int, api_version: int) -> DecodedBody:
        """Read the selected fields of the response to a request of that key and version."""
        asked = plan = self._plans.response(api_key, api_version)
        at = 8
        known = _known_failure(frame, at, asked)
        if known is not None:
            return known
        try:
            if plan.header_version > 0:
                view = self.beginning(frame)
                at = parse_response_header(view, 4, len(view), plan.header_version).body
            elif api_key == API_VERSIONS and _begins_with_code(frame, UNSUPPORTED_VERSION):
                plan = self._plans.response(api_key, 0)
        except WireError as error:
            kind = _failure(frame)
            is_cut = kind is _MISSING
            detail = NOT_ALL_THERE if is_cut else f"responseHeader: {error}"
            body = DecodedBody(None, None, kind, detail)
        else:
            body = self._body(frame, at, plan)
            if api_key == API_VERSIONS and body.problem is _MISSING:
                body = self._without_versions(frame, at, plan) or body
        if body.read_as == NO_VERSION:
            detail = self._failures.with_guess(body.detail, frame, api_key, api_version)
            body = DecodedBody(None, None, body.problem, detail)
            self._failures.remember(frame, _CODE_AT, asked, body)
        elif self._checks_crc:
            _check_batches(body, frame, plan)
        return body

    # -- which bytes are needed --------------------------------------------------------------------

    def skim(
        self, kind: MessageKind, frame: Frame, api_key: int, api_version: int, at: int | None
    ) -> tuple[Ranges, int] | None:
        """Drop the bytes of an incomplete message that no selected field needs.

        The body begins at ``at``; None stands for that of a response. Returns the kept ranges, and
        up to where bytes were dropped; None if nothing was dropped.
        """
        plan, at = self._readable(kind, frame, api_key, api_version, at)
        if plan.decode is None or at is None:
            return None
        is_checked = self._checks_crc and _note_batches(plan)
        ranges, until = byte_ranges_read_so_far(frame, at, plan.decode)
        if is_checked:
            sum_up(frame, plan.decode.machine)
        frame.keep_only(ranges, until)
        return ranges, until

    def needed(
        self, kind: MessageKind, frame: Frame, api_key: int, api_version: int, at: int | None
    ) -> Ranges | None:
        """Return which bytes of a message the selected fields need; None for all of them.

        ``at`` is as for :meth:`skim`.
        """
        plan, at = self._readable(kind, frame, api_key, api_version, at)
        if plan.decode is None or at is None or frame.missing_bytes:
            return None
        return byte_ranges_read(frame, at, plan.decode)

    def _readable(
        self, kind: MessageKind, frame: Frame, api_key: int, api_version: int, at: int | None
    ) -> tuple[DecodePlan, int | None]:
        """Return the plan for a message, and where its body begins; None if it is not all known."""
        plan = self._plans.of_kind(api_key, api_version, kind)
        if at is None:
            at = response_body_at(frame, plan.header_version)
        return plan, at if plan.reads_all_that_is_needed else None

    def first_records(self, view: memoryview, header: RequestHeader) -> tuple[int, int] | None:
        """Return where the first records of a request begin, and how long they are.

        ``view`` begins with the request, but need not hold all of it. None if it holds no records,
        or the version is unknown. This is slow: use it for few requests.
        """
        version = header.api_version
        if header.api_key != PRODUCE or not self._plans.has_version(PRODUCE, version):
            return None
        from kanalyze.kafka.codec.interpreter import first_records  # imported late: rare

        message = self._catalog.message(header.api_key, "request")
        head = view[: header.body + _RECORDS_WITHIN_BYTES]
        return first_records(message, header.api_version, head, header.body)

    # -- what was read, as plain values -----------------------------------------------------------

    def body_state(self, message: Message, api_key: int | None, kind: MessageKind) -> State | None:
        """Return a body's layout and tape; see ``BodyStates`` in ``exchange.py``."""
        encoded, version = message.encoded_fields, message.version
        if encoded is None or version is None or api_key is None:
            return None
        plan = self._plans.of_kind(api_key, version, kind)
        has_newer = plan.decode is not None and encoded.is_of(plan.decode.shape)
        if has_newer or plan.superseded is None:
            return False, encoded.state(), has_newer
        if encoded.is_of(plan.superseded.shape):
            return True, encoded.state(), True
        older = self._plans.older(api_key, version, kind, is_superseded=True)
        return encoded.is_of(older.shape), encoded.state(), False

    def load_body_state(
        self, message: Message, state: object, api_key: int | None, kind: MessageKind
    ) -> None:
        """Load a body from its state; see ``BodyStates`` in ``exchange.py``."""
        if state is None:
            return
        version = message.version
        is_superseded, encoded, has_newer = fields(state, "btb", (False,))
        if api_key is None or version is None or not self._plans.has_version(api_key, version):
            raise ValueError("a body of an unknown API")
        plan = self._plans.of_kind(api_key, version, kind)
        decode = plan.superseded if is_superseded else plan.decode
        if decode is None:
            raise ValueError("a body in an unknown layout")
        if not has_newer:
            decode = self._plans.older(api_key, version, kind, is_superseded=is_superseded)
        is_older = isinstance(state, tuple) and len(state) == 2
        message.encoded_fields = decode.fields_from_state(encoded, is_older=is_older)

    # -- decoding ---------------------------------------------------------------------------------

    def _body(self, frame: Frame, at: int, plan: DecodePlan) -> DecodedBody:
        if self._checks_crc:
            _note_batches(plan)
        decode = plan.decode
        if decode is None and plan.definition is None:
            return DecodedBody(None, None, AnomalyKind.UNKNOWN_API, UNKNOWN_API)
        if decode is None:
            return _of_unknown_version(plan, None)
        error = decode.run(frame, at, self.whole.tape())
        if error is not None:
            if not plan.known:
                return _of_unknown_version(plan, None)
            superseded = self._by_superseded(plan, frame, at)
            if superseded is not None:
                return superseded
            kind = _failure(frame)
            if kind is _MISSING:
                return DecodedBody(None, None, kind, NOT_ALL_THERE)
            return DecodedBody(
                None, None, kind, self._failures.explain(frame, at, plan, str(error))
            )
        end = decode.end
        exact = end == frame.length
        if not exact and plan.superseded is not None:
            superseded = self._by_superseded(plan, frame, at)
            if superseded is not None:
                return superseded
            decode.run(frame, at, self.whole.tape())  # the other layout was written over it
        if not plan.known:
            return _of_unknown_version(plan, decode if exact else None)
        if exact:
            return DecodedBody(decode, plan.version, None)
        left_over = 0 if is_padding(frame, end) else frame.length - end
        detail = f"byte {end}: {LEFT_OVER}"
        return DecodedBody(decode, plan.version, AnomalyKind.TRAILING_BYTES, detail, left_over)

    def _without_versions(self, frame: Frame, at: int, plan: DecodePlan) -> DecodedBody | None:
        """Read an ApiVersions response that lacks bytes as if it announced nothing.

        No row needs what it announces. None if other bytes are missing, or if nobody knows where
        the list ends: from version 3 on, its items have tags.
        """
        if plan.decode is None or plan.version is None or plan.version > _LAST_WITHOUT_TAGS:
            return None
        try:
            (items,) = _INT32(frame.read(at + 2, 4))
            behind = at + 6 + items * 6
            if items < 0 or behind > frame.length:
                return None
            body = b"".join(
                (frame.read(at, 2), bytes(4), frame.read(behind, frame.length - behind))
            )
            plan.decode.read(body, 0, self.whole.tape())
        except WireError:
            return None
        return DecodedBody(plan.decode, plan.version, None)

    def _by_superseded(self, plan: DecodePlan, frame: Frame, at: int) -> DecodedBody | None:
        """Read a body in the layout that some releases had; None if that does not fit."""
        decode = plan.superseded
        if decode is None or decode.run(frame, at, self.whole.tape()) is not None:
            return None
        return DecodedBody(decode, plan.version, None) if decode.end == frame.length else None


def _rest_of(frame: Frame, at: int) -> bytes | None:
    """Return the bytes of a small frame from a position on; None if they are not all there."""
    if frame.length > _REMEMBERED_BYTES or frame.missing_bytes or at > frame.length:
        return None
    return rest_of(frame, at)


def _known_failure(frame: Frame, at: int, plan: DecodePlan) -> DecodedBody | None:
    """Return the result for a frame with the same bytes, if it could not be read."""
    if plan.failures is None:
        return None
    key = _rest_of(frame, at)
    return None if key is None else plan.failures.get((at, key))


def _note_batches(plan: DecodePlan) -> bool:
    """Make the decoder note batches of records if they are checked; return whether it does."""
    decode = plan.decode
    if decode is None or not has_checked_batches(plan.key >> 16):
        return False
    decode.machine.noting = True
    return True


def _check_batches(body: DecodedBody, frame: Frame, plan: DecodePlan) -> None:
    """Check the batches of a body if it was read by the plan's decoder."""
    decode = body.decode
    if decode is None or decode is not plan.decode or not has_checked_batches(plan.key >> 16):
        return
    if decode.machine.batches > 0:
        body.batches = checks_of(frame, decode.machine)


def _of_unknown_version(plan: DecodePlan, decode: BodyDecoder | None) -> DecodedBody:
    """Return the result for a body in a version that is not in the tables."""
    assert plan.definition is not None
    version = None if decode is None else plan.version
    detail = unknown_version(plan.definition)
    return DecodedBody(decode, version, AnomalyKind.UNKNOWN_API_VERSION, detail)


def _begins_with_code(frame: Frame, code: int) -> bool:
    """Return true if the body of a response without tags begins with an error code.

    Raises WireError if its bytes are missing.
    """
    is_there = frame.length >= _CODE_AT + 2
    return is_there and bool(_INT16(frame.read(_CODE_AT, 2))[0] == code)


def _failure(frame: Frame) -> AnomalyKind:
    return _MISSING if frame.missing_bytes else _MALFORMED


def _acks(frame: Frame, at: int, version: int) -> int:
    """Return ``acks``; only a transactional id comes before it."""
    data = frame.window(at)
    end = acks_at(start_of(data), 0, len(data), version)
    while end + 2 > len(data):  # twice, if the length of the transactional id was not there either
        data = frame.read(at, end + 2)
        end = acks_at(start_of(data), 0, len(data), version)
    return int16_at(data, end)


KeepsBytes: TypeAlias = "Callable[[int], bool]"
"""Returns true if the bytes of the messages of an API key are kept."""

RECORD_APIS = frozenset({0, 1, 59, 78})
"""Keys of the APIs whose messages have record data: Produce, Fetch, FetchSnapshot, ShareFetch."""

_UNREADABLE = _MALFORMED, _MISSING
_TOO_LARGE = DecodedBody(
    None, None, AnomalyKind.MEMORY_LIMIT, "a body that is too large to be read"
)


class MessageBodies:
    """Reads the bodies of one connection; counts bytes by whether the body was read."""

    _NOT_SAVED = ("_batches", "_keep", "_reader", "_undetached", "_whole")
    _SAVED = Saved("decoded_bytes:count undecoded_bytes:count", added="batches:here")

    def __init__(self, reader: MessageReader, keep: KeepsBytes | None) -> None:
        self._reader = reader
        self._whole = reader.whole
        self._keep = keep
        self._undetached: list[Exchange] | None = None
        """Exchanges of the current feed; the values of their messages are on the shared tape."""
        self.decoded_bytes = 0
        self.undecoded_bytes = 0
        self._batches: BatchCounts | None = None

    @property
    def batches(self) -> BatchCounts:
        """Batches of records, and which of them were checked: none where nothing is checked."""
        if self._batches is None:
            self._batches = BatchCounts()
        return self._batches

    def counted_batches(self) -> BatchCounts | None:
        """Return the same; None if there were none."""
        return self._batches

    def read_request(
        self,
        cut: CutFrames,
        index: int,
        head: Any,
        exchange: Exchange,
        direction: int,
        events: ConnectionEvents,
    ) -> bool:
        """Read the body of an exchange's request; return whether acks say that none comes back."""
        if self._undetached is None:
            self._undetached = []
        self._undetached.append(exchange)
        message, key, version = exchange.request, head.api_key, head.api_version
        assert message is not None
        acks = NOT_THERE
        decode = self._whole.request(cut, index, head)
        if decode is not None:
            if key == PRODUCE:
                acks = self._whole.acks(cut, index, head)
            self._record_whole(cut, index, exchange, message, decode, version)
            if key != PRODUCE or acks != NOT_THERE:
                return acks == 0
        frame = cut.frame(index)
        header = request_header_of(key, version, head.correlation_id, exchange.client_id, head.body)
        if decode is None:
            body = self._too_large(frame, key) or self._reader.request_body(frame, header)
            self._record(frame, exchange, message, body, direction, events)
        return key == PRODUCE and self._reader.acks(frame, header) == 0

    def read_response(
        self,
        cut: CutFrames,
        index: int,
        exchange: Exchange,
        direction: int,
        events: ConnectionEvents,
    ) -> None:
        """Read the body of an exchange's response, if its API and version are known."""
        key, version, message = exchange.key, exchange.key_version, exchange.response
        if key == NO_API or version == NO_API:
            return
        assert message is not None
        decode = self._whole.response(cut, index, key, version)
        if decode is not None:
            self._record_whole(cut, index, exchange, message, decode, version)
            return
        frame = cut.frame(index)
        body = self._too_large(frame, key) or self._reader.response_body(frame, key, version)
        self._record(frame, exchange, message, body, direction, events)

    def keeps_bytes(self, api_key: int) -> bool:
        """Return true if the bytes of an API's messages are kept."""
        return self._keep is not None and self._keep(api_key)

    def detach_pending(self) -> None:
        """Copy the values of requests without a response: all connections share one tape."""
        undetached = self._undetached
        if undetached is None:
            return
        pending: list[Message] = []
        cells = arena_bytes = 0
        for index in range(len(undetached)):
            exchange = undetached[index]
            request = exchange.request
            if exchange.response is None and request is not None and request.cells >= 0:
                pending.append(request)
                cells += request.cells
                arena_bytes += request.arena_bytes
        if pending:
            tape = Tape(cells, arena_bytes)
            for request in pending:
                request.move(tape)
        self._undetached = None

    def _too_large(self, frame: Frame, api_key: int) -> DecodedBody | None:
        """Return the result for a body that is not read, as its values may take too much memory.

        Where record data is kept, the size of a message says nothing of that.
        """
        if frame.buffered_bytes <= LARGEST_BODY_BYTES:
            return None
        return None if api_key in RECORD_APIS and self.keeps_bytes(api_key) else _TOO_LARGE

    def _record_whole(
        self,
        cut: CutFrames,
        index: int,
        exchange: Exchange,
        message: Message,
        decode: BodyDecoder,
        version: int,
    ) -> None:
        """Put what was read of a message that is whole, in order, and right into it."""
        self._whole.take(message, decode, version)
        self.decoded_bytes += cut.items[index].length
        if self._whole.batches > 0:
            self.batches.batches += self._whole.batches
            self.batches.checked += self._whole.checked
        if self._keep is not None and self._keep(exchange.key):
            message.data = bytes(cut.frame(index).read(0, message.length))

    def _record(
        self,
        frame: Frame,
        exchange: Exchange,
        message: Message,
        body: DecodedBody,
        direction: int,
        events: ConnectionEvents,
    ) -> None:
        """Put the values into the message, and count the frame."""
        if body.decode is not None:
            self._whole.take(message, body.decode, body.read_as)
        if self._keep is not None and self._keep(exchange.key):
            if frame.missing_bytes:
                message.pieces = save(frame.in_pieces())
            else:
                message.data = bytes(frame.read(0, frame.length))
        if body.read_as == NO_VERSION:
            self.undecoded_bytes += frame.length
        else:
            self.decoded_bytes += frame.length - body.left_over
            self.undecoded_bytes += body.left_over
        if body.batches is not None:
            self._add_batches(frame, exchange, body.batches, direction, events)
        problem = body.problem
        if problem is not None:
            if problem in _UNREADABLE:
                exchange.malformed = True
            tcp = exchange.peers.tcp
            anomaly = frame_anomaly(problem, tcp, frame, direction, body.detail, exchange)
            events.anomalies.append(anomaly)

    def _add_batches(
        self,
        frame: Frame,
        exchange: Exchange,
        checks: BatchChecks,
        direction: int,
        events: ConnectionEvents,
    ) -> None:
        """Count the batches of a message; some that are wrong are one anomaly."""
        self.batches.add(checks)
        if checks.wrong:
            kind, tcp = AnomalyKind.WRONG_CRC, exchange.peers.tcp
            anomaly = frame_anomaly(kind, tcp, frame, direction, checks.detail, exchange)
            events.anomalies.append(anomaly)
