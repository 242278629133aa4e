"""Finds where a request or a response begins in bytes that begin anywhere.

In: bytes of one direction, and for responses the pending requests. Out: the index of a frame's
first byte.

A plausible size alone is no boundary. The header has to be plausible, and the body has to fit the
header, to the frame's last byte if that has come. A wrong boundary gives wrong rows; a
missed boundary costs one row.

The first step finds the few indices where a header could begin. An index is left out only if
reading the header there would fail. Reading takes a hundred times as long.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, TypeAlias

from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.framer import LARGEST_FRAME_BYTES, FrameLocator
from kanalyze.kafka.session.heuristics import (
    LONGEST_CLIENT_ID_BYTES,
    SHORTEST_NAME,
    highest_plausible_version,
    is_likely,
    is_plausible_client_id,
    is_plausible_version,
    names_client,
)
from kanalyze.kafka.v07.first_request import LAST_TYPE, verdict_07
from kanalyze.kafka.wire import WireError
from kanalyze.model.streams import Chunk
from kanalyze.model.tls import HEADER_BYTES as TLS_HEADER_BYTES
from kanalyze.model.tls import looks_like_record

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.codec.machine import int16_at, int32_at
    from kanalyze.kafka.framing.frame import frame_in_segment

MAX_CANDIDATES = 4096
HEAD_BYTES = 14
TOP_SIZE_BYTE = LARGEST_FRAME_BYTES >> 24
FIRST_PRINTABLE, DELETE = 0x20, 0x7F
PRODUCE, CONTROLLED_SHUTDOWN = 0, 7
LAST_OLD_PRODUCE = 2
OLD_PRODUCE_HEAD_BYTES = 26
MIN_TOPIC_BYTES, LONGEST_TOPIC_BYTES = 6, 255
FILTER_BITS = 4096

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.model.streams import StreamItem, StreamUpdate

_LONGEST_CLIENT_ID_BYTES = LONGEST_CLIENT_ID_BYTES


class RequestCandidates:
    """Finds where a request's header could begin."""

    def __init__(self, catalog: Catalog) -> None:
        """Make a table of the known keys, by their bytes.

        For each low byte the highest plausible version, or -1. At most 255: only the low byte of a
        version is checked.
        """
        highest, has_high_byte = array("i", [-1] * 256), bytearray(256)
        for api in catalog.apis:
            low, version = api.key & 0xFF, min(highest_plausible_version(api), 255)
            highest[low] = max(highest[low], version)
            has_high_byte[api.key >> 8 & 0xFF] = 1
        self._highest = memoryview(highest)
        self._has_high_byte = memoryview(has_high_byte)

    def find(self, data: memoryview, limit: int) -> list[int]:
        """Return the indices below ``limit``, at most ``MAX_CANDIDATES``.

        At least the bytes of a header without a client id follow each of them.
        """
        candidates: list[int] = []
        for index in range(limit):
            if data[index] <= TOP_SIZE_BYTE and data[index + 6] == 0 and self._may_be(data, index):
                candidates.append(index)
                if len(candidates) == MAX_CANDIDATES:
                    break
        return candidates

    def _may_be(self, data: memoryview, index: int) -> bool:
        if self._has_high_byte[data[index + 4]] == 0:
            return False
        if data[index + 7] > self._highest[data[index + 5]]:
            return False
        size = int32_at(data, index)
        if size < 8 or size > LARGEST_FRAME_BYTES:
            return False
        return _may_have_client_id(data, index, size) and _may_be_old_produce(data, index, size)


def _may_have_client_id(data: memoryview, index: int, size: int) -> bool:
    """Return true if a header's client id is null or plausible."""
    length = int16_at(data, index + 12)
    if length == -1:
        return True
    # The first version of one API has no client id.
    if data[index + 5] == CONTROLLED_SHUTDOWN and data[index + 7] == 0:
        return True
    room = min(size + 4, len(data) - index) - HEAD_BYTES
    if length < 0 or length > room or length > _LONGEST_CLIENT_ID_BYTES:
        return False
    if length == 0:
        return True
    first = data[min(index + HEAD_BYTES, len(data) - 1)]
    return first >= FIRST_PRINTABLE and first != DELETE


def _may_be_old_produce(data: memoryview, index: int, size: int) -> bool:
    """Return true if a candidate that looks like an early Produce request may be one.

    API key, version and the length of an empty client id are all 0 there, as many other bytes are:
    nearly all false candidates in other data look like these.
    """
    if data[index + 5] != PRODUCE or data[index + 7] > LAST_OLD_PRODUCE:
        return True
    # A null client id has no bytes, and a length of -1.
    if index + OLD_PRODUCE_HEAD_BYTES > len(data) or int16_at(data, index + 12) > 0:
        return True
    body = index + HEAD_BYTES
    acks_high = data[body]
    if acks_high not in (0, 0xFF) or data[body + 2] >= 0x80:  # the second is of the timeout
        return False
    count, name_length = int32_at(data, body + 6), int16_at(data, body + 10)
    if count < 1 or count > size // MIN_TOPIC_BYTES:
        return False
    return 1 <= name_length <= LONGEST_TOPIC_BYTES


def responses(data: memoryview, limit: int, pending: Collection[int]) -> list[int]:
    """Return the indices below ``limit`` where a response to a pending request may begin.

    ``pending`` has their ids. At least 8 bytes follow each index.
    """
    # A small table rules out most bytes before the lookup.
    table = bytearray(FILTER_BITS)
    for number in pending:
        table[number & (FILTER_BITS - 1)] = 1
    return _responses(data, limit, pending, table)


def _responses(
    data: memoryview, limit: int, pending: Collection[int], table: bytearray | memoryview
) -> list[int]:
    candidates: list[int] = []
    for index in range(limit):
        if data[index] > TOP_SIZE_BYTE:
            continue
        number = int32_at(data, index + 4)
        if table[number & (FILTER_BITS - 1)] == 0 or number not in pending:
            continue
        size = int32_at(data, index)
        if 4 <= size <= LARGEST_FRAME_BYTES:
            candidates.append(index)
            if len(candidates) == MAX_CANDIDATES:
                break
    return candidates


Verdict = Literal["yes", "perhaps", "no"]
PendingApis: TypeAlias = dict[int, set[tuple[int, int]]]
"""The (api_key, api_version) of the pending requests of each correlation id."""
_NOTHING_PENDING: PendingApis = {}
"""Shared by all locators before their first search: nothing is ever added to it."""

_INT32 = struct.Struct(">i")
_SIZE = _INT32.unpack_from
MAX_UNCONFIRMED_BYTES = 1024 * 1024
"""How many bytes of a direction out of sync are buffered before an incomplete frame is accepted as
a frame. Few frames are larger."""
_MAX_UNCONFIRMED_BYTES = 64 * 1024
"""How many bytes are buffered to check a candidate. Beyond this, an incomplete candidate whose body
fits so far is accepted as a frame."""
_SOON_BYTES = 512
"""Nearly every candidate that is none is refuted by so many bytes."""
_CHECK_BYTES = 64
"""A check that ends soon takes as long as it takes to read so many bytes."""
_MAX_TIMES_CHECKED = 4
_MIN_CHECKED_BYTES = 128 * 1024
_PADDING = bytes(HEAD_BYTES + 12)
"""Put between pieces of segments: a request does not continue in the next piece."""
_KEPT_BYTES = 32 * 1024
"""Bytes without a response that are kept: they are searched again when more requests are known."""
_NEAR_IDS = 1000
"""Requests in flight at once: the ids of neighbouring responses differ by no more."""
_LOGIN_IDS = (1 << 31) - 8
"""From here on, Java's clients have ids for logins alone; those of other requests follow."""


class CheckBudget:
    """Bounds how often bytes are checked in one search: a frame may seem to begin at every few.

    Each candidate is checked as far as the search has bytes, so that a stream of heads whose bodies
    nearly fit would be read thousands of times. Once the budget is spent, what is left counts as no
    frame: it is no loss among such bytes, and a search spends a hundredth of it on others.
    """

    __slots__ = ("_left_bytes",)

    def __init__(self, searched_bytes: int) -> None:
        """Make the budget of a search in so many bytes."""
        self._left_bytes = max(_MIN_CHECKED_BYTES, _MAX_TIMES_CHECKED * searched_bytes)

    @property
    def is_spent(self) -> bool:
        """True if no more candidates are to be checked."""
        return self._left_bytes <= 0

    def check(
        self, fits: Callable[[memoryview], bool | None], view: memoryview, soon: int, size: int
    ) -> bool | None:
        """Return what ``fits`` says of a candidate: first of its ``soon`` bytes, then of all.

        The candidate's frame has the declared ``size``.
        """
        whole = min(len(view), size + 4)
        self._left_bytes -= _CHECK_BYTES
        # So that the few bytes never end where padding might follow the body.
        if soon + HEAD_BYTES < whole:
            verdict = fits(view[:soon])
            if verdict is not None:
                return verdict
            self._left_bytes -= whole
            if self.is_spent:
                return False
        return fits(view)


class RequestLocator(FrameLocator):
    """Finds requests.

    A complete request that fits is preferred. If none is found for long, an incomplete one is
    accepted, until its end confirms or refutes it.
    """

    def __init__(
        self,
        reader: MessageReader,
        catalog: Catalog,
        *,
        most_unconfirmed_bytes: int = _MAX_UNCONFIRMED_BYTES,
    ) -> None:
        """Make a locator.

        It accepts an incomplete frame after ``most_unconfirmed_bytes``.
        """
        self._reader = reader
        self._most_unconfirmed_bytes = most_unconfirmed_bytes
        self._catalog = catalog
        self._candidates_in: RequestCandidates | None = None
        """Made when first needed: making it reads all APIs."""
        self._last_near = -1
        """Key and version of the last request that :meth:`is_near` was true for: nearly every
        client begins with the same one."""

    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        """Return (index of a request's first byte or None, index of the first byte to keep)."""
        perhaps = None
        for index, verdict in self.candidates(view):
            if verdict == "yes":
                return index, index
            if perhaps is None:
                perhaps = index
        limit = max(0, len(view) - HEAD_BYTES + 1)
        return _accept_or_wait(perhaps, len(view), limit, self._most_unconfirmed_bytes)

    def in_pieces(self, pieces: list[memoryview]) -> tuple[int, int] | None:
        """Return where the first request begins in pieces of segments (see ``FrameLocator``).

        An incomplete one is accepted by its client id or the head of its records.
        """
        padded = b"".join([part for piece in pieces for part in (piece, _PADDING)])
        budget = CheckBudget(len(padded))
        starts = [0, *accumulate(len(piece) + len(_PADDING) for piece in pieces)]
        for at in self._candidates(memoryview(padded), len(padded) - HEAD_BYTES + 1):
            number = bisect_right(starts, at) - 1
            piece, index = pieces[number], at - starts[number]
            if index + HEAD_BYTES > len(piece):
                continue
            if budget.is_spent:
                break
            verdict = self.verdict(piece[index:], budget)
            if verdict == "yes" and not self._may_continue(piece, index):
                continue
            if verdict == "yes" or (
                verdict == "perhaps" and is_likely(self._reader, piece[index:])
            ):
                return number, index
        return None

    def candidates(self, view: memoryview) -> Iterator[tuple[int, Verdict]]:
        """Yield where requests seem to begin, and the verdict unless it is ``no``.

        A complete one is followed by another one, or by nothing. The last bytes, fewer than a
        header takes, are not searched.
        """
        budget = CheckBudget(len(view))
        for index in self._candidates(view, len(view) - HEAD_BYTES + 1):
            if budget.is_spent:
                break
            verdict = self.verdict(view[index:], budget)
            if verdict == "perhaps" or (verdict == "yes" and self._may_continue(view, index)):
                yield index, verdict

    def confirm(self, frame: Frame) -> bool:
        """Return true if a frame that was incomplete when found is a request."""
        try:
            header = self._reader.request_header(frame)
        except WireError:
            return False
        return self._reader.checks.confirms_request(frame, header)

    def verdict(self, view: memoryview, budget: CheckBudget | None = None) -> Verdict:
        """Return the verdict on a request at the view's first byte, within the budget of a search.

        ``yes``: the API and version are known, and the body takes up the frame to the byte.
        ``perhaps``: the frame is incomplete, or the version newer than known, without a
        contradiction.
        """
        if len(view) < HEAD_BYTES:
            return "perhaps" if len(view) < 4 or _SIZE(view)[0] >= 8 else "no"
        header = self.plausible_header(view)
        if header is None:
            return "no"
        size = _SIZE(view)[0]

        def check(part: memoryview) -> bool | None:
            return self._reader.checks.request_fits(part, header, size)

        if budget is None:
            fits = check(view)
        else:
            fits = budget.check(check, view, header.body + _SOON_BYTES, size)
        if fits is None:
            return "perhaps"
        return "yes" if fits else "no"

    def first_request(self, items: list[StreamItem]) -> RequestHeader | None:
        """Return the header of the request that a stream begins with, if its verdict is ``yes``.

        None if it does not lie in the first segment, captured to its end. It is read in place:
        nearly every connection is detected here, and views of its bytes would take as long as all
        the rest.
        """
        frame, reader = _first_frame(items), self._reader
        if frame is None or not self.is_near(_int16_in(frame, 4), _int16_in(frame, 6)):
            return None
        try:
            header = reader.request_header(frame)
        except WireError:
            return None
        if not is_plausible_client_id(header.client_id):
            return None
        return header if reader.checks.whole_request_fits(frame, header) else None

    def client_at_first_sight(self, update: StreamUpdate, client_index: int | None) -> int:
        """Return which end's first segment proves that a new connection is Kafka; -1 for none.

        It begins with a request, whatever follows: that lies in the segment, which was captured to
        its end; it fits, has a client id, and is no request of Kafka 0.7. Nearly every connection
        is detected here, without buffering; from buffered bytes the decision would be the same,
        unless the other end speaks TLS. ``client_index`` is the client of a connection that the
        user says is Kafka; None for other connections.
        """
        tcp = update.connection
        direction = client_index if client_index is not None else tcp.opened_by or 0
        items, other = update.items[direction], update.items[1 - direction]
        if not (tcp.start_seen[direction] and items and self._proves_kafka(items)):
            return -1
        return -1 if other and may_begin_tls(other) else direction

    def _proves_kafka(self, items: list[StreamItem]) -> bool:
        header = self.first_request(items)
        if header is None or header.client_id is None:
            return False
        if header.api_key > LAST_TYPE and "\\" not in header.client_id:
            return len(header.client_id) >= SHORTEST_NAME
        chunk = items[0]
        assert isinstance(chunk, Chunk)
        begin = chunk.segments.start[chunk.first]
        view = chunk.segments.view(begin, begin + chunk.segments.length[chunk.first])
        return names_client(view, header) and verdict_07(view) != "yes"

    def plausible_header(self, view: memoryview) -> RequestHeader | None:
        """Return the header that a view begins with; None if it cannot be a header."""
        size = _SIZE(view)[0]
        if not 8 <= size <= LARGEST_FRAME_BYTES:
            return None
        try:
            header = self._reader.parse_header(view, size)
        except WireError:
            return None
        is_near = self.is_near(header.api_key, header.api_version)
        return header if is_near and is_plausible_client_id(header.client_id) else None

    def is_near(self, api_key: int, api_version: int) -> bool:
        """Return true if the API is known, and the version is known or slightly newer."""
        key = api_key * 65536 + api_version
        if key == self._last_near:
            return True
        if not is_plausible_version(self._catalog, api_key, api_version):
            return False
        self._last_near = key
        return True

    def _may_continue(self, view: memoryview, index: int) -> bool:
        """Return true if the next bytes may be another request: a single match may be chance.

        Its header is enough: a client may send a body that breaks its grammar.
        """
        following = view[index + _SIZE(view, index)[0] + 4 :]
        return len(following) < HEAD_BYTES or self.plausible_header(following) is not None

    def _candidates(self, view: memoryview, limit: int) -> list[int]:
        """Return the indices below ``limit`` where a header could begin."""
        if limit <= 0:
            return []
        if self._candidates_in is None:
            self._candidates_in = RequestCandidates(self._catalog)
        return self._candidates_in.find(view, limit)


class ResponseLocator(FrameLocator):
    """Finds the responses to pending requests, which :meth:`expect` sets before a search."""

    _NOT_SAVED = ("_pending", "_reader")
    _SAVED = Saved("_at_first_byte:bool")

    def __init__(self, reader: MessageReader, from_middle: bool = True) -> None:
        """Make a locator.

        Args:
            reader: checks whether a body fits.
            from_middle: the capture begins with the first bytes of the search; they may be
                responses to requests from before it.
        """
        self._reader = reader
        self._pending = _NOTHING_PENDING
        self._at_first_byte = from_middle

    def expect(self, pending: PendingApis) -> None:
        """Set the pending requests, whose responses are searched for."""
        self._pending = pending

    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        """Return (index of a response's first byte or None, index of the first byte to keep)."""
        index, keep = self._find(view)
        if index is not None or keep:
            self._at_first_byte = False
        return index, keep

    def in_pieces(self, pieces: list[memoryview]) -> tuple[int, int] | None:
        """Return where the first response begins in pieces of segments (see ``FrameLocator``).

        An incomplete one is accepted if a segment begins with it.
        """
        ids = [_INT32.pack(correlation_id) for correlation_id in self._pending]
        for number, piece in enumerate(pieces):
            if not self._at_first_byte:
                data = bytes(piece)
                if not any(correlation_id in data for correlation_id in ids):
                    continue
            index, _ = self(piece)
            if index is not None:
                return number, index
            if self._begins(piece):
                return number, 0
        return None

    def _begins(self, piece: memoryview) -> bool:
        """Return true if an incomplete response begins with a piece."""
        if len(piece) < 8:
            return False
        size, correlation_id = _SIZE(piece)[0], _SIZE(piece, 4)[0]
        if correlation_id not in self._pending or not len(piece) - 4 < size <= LARGEST_FRAME_BYTES:
            return False
        apis = self._pending[correlation_id]
        return self._fits(piece, size, apis, CheckBudget(len(piece))) is None

    def _find(self, view: memoryview) -> tuple[int | None, int]:
        limit = len(view) - 8 + 1
        if limit <= 0:
            return None, 0
        perhaps = None
        budget = CheckBudget(len(view))
        for index in self._candidates(view, limit):
            if budget.is_spent:
                break
            size, correlation_id = _SIZE(view, index)[0], _SIZE(view, index + 4)[0]
            fits = self._fits(view[index:], size, self._pending[correlation_id], budget)
            if fits and self._may_continue(view, index):
                leads = self._at_first_byte and _leads_to(view, index)
                return (0 if leads else index), index
            if fits is None and perhaps is None:
                perhaps = index
        if self._at_first_byte and len(view) < MAX_UNCONFIRMED_BYTES:
            # These may be responses to requests from before the capture. Several with rising ids
            # are accepted, though an incomplete one seems to begin inside; a single one is decided
            # by the next bytes.
            count = _chained_responses(view)
            if count is not None and (count > 1 or perhaps is None):
                return (0 if count > 1 else None), 0
        # If bytes are missing, requests may become known later than their responses.
        return _accept_or_wait(
            perhaps, len(view), max(0, limit - _KEPT_BYTES), MAX_UNCONFIRMED_BYTES
        )

    def confirm(self, frame: Frame) -> bool:
        """Return true if a frame that was incomplete when found is a response."""
        try:
            correlation_id = self._reader.correlation_id(frame)
        except WireError:
            return False
        apis = self._pending.get(correlation_id, ())
        return any(self._reader.checks.confirms_response(frame, *api) for api in apis)

    def _fits(
        self, view: memoryview, size: int, apis: set[tuple[int, int]], budget: CheckBudget
    ) -> bool | None:
        """Return true if a response fits one of some APIs; None if the view ends too early."""
        fits_one: bool | None = False
        for api in apis:

            def check(part: memoryview, api: tuple[int, int] = api) -> bool | None:
                return self._reader.checks.response_fits(part, size, *api)

            fits = budget.check(check, view, _SOON_BYTES, size)
            if fits:
                return True
            if fits is None:
                fits_one = None
            if budget.is_spent:
                break
        return fits_one

    def _candidates(self, view: memoryview, limit: int) -> list[int]:
        return responses(view, limit, self._pending) if self._pending else []

    def _may_continue(self, view: memoryview, index: int) -> bool:
        """Return true if the next bytes may be another response: a single match may be chance."""
        following = index + _SIZE(view, index)[0] + 4
        if following + 8 > len(view):
            return True
        size, correlation_id = _SIZE(view, following)[0], _SIZE(view, following + 4)[0]
        before = _SIZE(view, index + 4)[0]
        is_near = before >= _LOGIN_IDS or abs(correlation_id - before) <= _NEAR_IDS
        return 4 <= size <= LARGEST_FRAME_BYTES and (is_near or correlation_id in self._pending)


def _leads_to(view: memoryview, index: int) -> bool:
    """Return true if frames with rising ids lead from the first byte to a response that was found.

    A capture that begins between two frames begins with responses to requests that it does not
    have. Only their sizes and ids can be checked.
    """
    at, last = 0, _SIZE(view, index + 4)[0] - _NEAR_IDS
    while at + 8 <= index:
        size, correlation_id = _SIZE(view, at)[0], _SIZE(view, at + 4)[0]
        if not 4 <= size <= LARGEST_FRAME_BYTES or correlation_id <= last:
            return False
        at, last = at + size + 4, correlation_id
    return at == index and last < _SIZE(view, index + 4)[0]


def _chained_responses(view: memoryview) -> int | None:
    """Return how many responses with rising ids make up the view; None if it is anything else.

    0 if the last one is incomplete.
    """
    at, last = 0, None
    for count in range(MAX_CANDIDATES):
        if len(view) - at < 8:
            return count if at == len(view) else 0
        size, correlation_id = _SIZE(view, at)[0], _SIZE(view, at + 4)[0]
        if not 4 <= size <= LARGEST_FRAME_BYTES or last not in (None, correlation_id - 1):
            return None
        at, last = at + size + 4, correlation_id
        if at > len(view):
            return 0
    return None


def _accept_or_wait(
    perhaps: int | None, size: int, limit: int, most_unconfirmed_bytes: int
) -> tuple[int | None, int]:
    """Decide on the first incomplete candidate: wait for its end, or accept it."""
    if perhaps is None:
        return None, limit
    is_accepted = size - perhaps >= most_unconfirmed_bytes
    return (perhaps if is_accepted else None), perhaps


def _first_frame(items: list[StreamItem]) -> Frame | None:
    """Return the frame that the first segment begins with, if it is complete and may be a request.

    None too if bytes are missing before it, or of the segment.
    """
    chunk = items[0]
    if not isinstance(chunk, Chunk):
        return None
    segments, index = chunk.segments, chunk.first
    length = segments.lengths[index]
    if length < HEAD_BYTES or segments.captureds[index] < length:
        return None
    size = int32_at(segments.data, segments.starts[index])
    if not 8 <= size <= LARGEST_FRAME_BYTES or size + 4 > length:
        return None
    return frame_in_segment(segments, index, 0, size + 4, 0)


def may_begin_tls(items: list[StreamItem]) -> bool:
    """Return true unless the first segment of a stream shows that it does not begin with TLS."""
    chunk = items[0]
    if not isinstance(chunk, Chunk):
        return True
    segments, index = chunk.segments, chunk.first
    length, begin = segments.lengths[index], segments.starts[index]
    if length < TLS_HEADER_BYTES or segments.captureds[index] < length:
        return True
    # The high byte of a plausible size is no type of a record.
    return segments.data[begin] > TOP_SIZE_BYTE and looks_like_record(
        segments.view(begin, begin + length)
    )


def _int16_in(frame: Frame, at: int) -> int:
    """Return the number at a position of a contiguous frame."""
    assert frame.segments is not None
    return int16_at(frame.segments.data, frame.begin + at)
