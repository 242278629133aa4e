"""Searches one direction of an undecided connection for Kafka requests.

In: the bytes of a direction as they come, and those of the other one. Out: verdicts on the first
bytes of the stream (Kafka, Kafka 0.7, SASL tokens, or something else); the wire protocol of bytes
that begin anywhere.

First bytes are checked again only when the verdict may change: at the end of a frame, or when a
quarter more has come. So a stream of one-byte segments takes only a few times as long as a stream
that comes at once. Bytes that begin anywhere are searched once, and a few times if an incomplete
request begins there. A request that fits needs further evidence
(:mod:`~kanalyze.kafka.session.heuristics`). A large request is buffered no longer than other bytes:
its head may be evidence enough, or what follows its end.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.framer import LARGEST_FRAME_BYTES
from kanalyze.kafka.session.gssapi import looks_like_gssapi
from kanalyze.kafka.session.heuristics import (
    LONGEST_CLIENT_ID_BYTES,
    RequestHead,
    carries_records,
    has_answer,
    highest_plausible_version,
    names_client,
    read_head,
)
from kanalyze.kafka.v07.first_request import verdict_07

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.replay_buffer import ReplayBuffer
    from kanalyze.kafka.session.resync import RequestLocator
    from kanalyze.kafka.v07.resync import Verdict

_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from
_CONTROLLED_SHUTDOWN = 7
_HEAD_BYTES = 14
"""Size, key, version, correlation id, length of the client id."""
_SMALLEST_BYTES = 10
_FEW_BYTES = 64
_MAX_TOKENS = 16
_MAX_FRAMES = 17
_NEVER = 1 << 62
_VERDICTS = {"yes", "perhaps", "no"}


class FirstBytes:
    """The verdicts so far on the first bytes of one direction.

    Attributes:
        new, old: does a request of Kafka, or of Kafka 0.7, begin here?
        tokens: do a GSSAPI login and then requests begin here?
        heads: the headers of the first requests: that of the first one, unless ``new`` is no; and
            that of the second one, if both requests fit to the byte.
    """

    __slots__ = ("_next_end", "heads", "new", "old", "tokens")
    _SAVED = Saved(
        "new:str old:str tokens:str _next_end:count heads:list[RequestHead]", RequestHead
    )

    def __init__(self) -> None:
        self.new: Verdict = "perhaps"
        self.old: Verdict = "perhaps"
        self.tokens: Verdict = "perhaps"
        self.heads: list[RequestHead] = []
        self._next_end = 1

    def _after_load(self) -> None:
        if not {self.new, self.old, self.tokens} <= _VERDICTS:
            raise ValueError("no verdict")

    @property
    def is_hopeless(self) -> bool:
        """True if no stream of a Kafka client begins with these bytes."""
        return self.new == self.old == self.tokens == "no"

    def is_due(self, buffer: ReplayBuffer, *, last: bool) -> bool:
        """Return true if another check may change a verdict."""
        return buffer.runs.first_end >= self._next_end or (last and not self.is_hopeless)

    def schedule_next_check(self, view: memoryview) -> None:
        """Decide when to check again."""
        if self.is_hopeless:
            self._next_end = _NEVER
            return
        end = len(view)
        if end < _FEW_BYTES:
            self._next_end = end + 1
            return
        self._next_end = max(end + 1, min(end + end // 4, _next_frame_end(view)))


class FirstBytesReader:
    """Checks first bytes."""

    def __init__(
        self,
        reader: MessageReader,
        catalog: Catalog,
        locate: RequestLocator,
    ) -> None:
        self._reader = reader
        self._catalog = catalog
        self._locate = locate

    def look(self, first: FirstBytes, buffer: ReplayBuffer, *, last: bool = False) -> None:
        """Bring ``first`` up to date, if new bytes may change it."""
        if not first.is_due(buffer, last=last):
            return
        view = buffer.read(0, buffer.runs.first_end)
        first.new = self.verdict(view)
        first.old = verdict_07(view)
        first.tokens = _after_tokens(view, self.verdict) if first.new == "no" else "no"
        if len(view) < _FEW_BYTES and first.new == "no" and first.tokens == "no":
            # This may be a token whose head is incomplete.
            first.tokens = _tokens_may_begin(view)
        first.heads = [] if first.new == "no" else self._heads(view, first.new)
        first.schedule_next_check(view)

    def verdict(self, view: memoryview) -> Verdict:
        """Return the verdict on a request at the view's first byte, as ``RequestLocator.verdict``.

        Unlike there, an incomplete header is judged by the bytes that have come; and a body that
        does not fit is no contradiction to a header with a client id: it may be malformed.
        """
        if len(view) < 4:
            return "perhaps"
        size = _INT32(view)[0]
        if not _SMALLEST_BYTES <= size <= LARGEST_FRAME_BYTES or not self._is_known(view):
            return "no"
        if len(view) < _HEAD_BYTES:
            return "perhaps"
        if len(view) < min(size + 4, _header_bytes(view)):
            client_id_bytes = _INT16(view, 12)[0]
            return "perhaps" if client_id_bytes <= LONGEST_CLIENT_ID_BYTES else "no"
        verdict = self._locate.verdict(view)
        if verdict == "no":
            header = self._locate.plausible_header(view)
            return "perhaps" if header is not None and names_client(view, header) else "no"
        return verdict

    def _is_known(self, view: memoryview) -> bool:
        """Return true if the key and the version, as far as they have come, are known."""
        if len(view) < 6:
            return True
        api = self._catalog.api(_INT16(view, 4)[0])
        if api is None or len(view) < 8:
            return api is not None
        return bool(0 <= _INT16(view, 6)[0] <= highest_plausible_version(api))

    def _heads(self, view: memoryview, verdict: Verdict) -> list[RequestHead]:
        head = read_head(self._reader, view)
        if head is None:
            return []
        following = view[head.end :]
        if verdict == "yes" and len(following) >= _HEAD_BYTES:
            second = read_head(self._reader, following)
            if second is not None and self.verdict(following) == "yes":
                return [head, second]
        return [head]


def _header_bytes(view: memoryview) -> int:
    """Return how many bytes a header takes, with one for its tags."""
    if _INT32(view, 4)[0] == _CONTROLLED_SHUTDOWN << 16:
        return _HEAD_BYTES
    return _HEAD_BYTES + max(0, int(_INT16(view, 12)[0])) + 1


def _after_tokens(view: memoryview, verdict_of: Callable[[memoryview], Verdict]) -> Verdict:
    """Return the verdict on a GSSAPI login and then requests (Kafka 0.9) at the first byte.

    ``perhaps`` while no request has come after the tokens.
    """
    if len(view) < 4 or not looks_like_gssapi(view[4:], _INT32(view)[0]):
        return "no"
    at = 0
    for _ in range(_MAX_TOKENS):
        at += max(0, _INT32(view, at)[0]) + 4
        if at + 4 > len(view):
            return "perhaps"
        if _INT32(view, at)[0] < 8:
            continue  # an empty token, or a confirmation
        verdict = verdict_of(view[at:])
        if verdict != "no":
            return verdict
    return "no"


def _tokens_may_begin(view: memoryview) -> Verdict:
    """Return ``perhaps`` if an incomplete GSSAPI token may begin here, else ``no``.

    After its size, such a token has the tag 0x60, then a length and an OID (RFC 2743).
    """
    if len(view) >= 12 or (len(view) > 4 and view[4] != 0x60):
        return "no"
    if len(view) >= 4 and not _SMALLEST_BYTES <= _INT32(view)[0] <= LARGEST_FRAME_BYTES:
        return "no"
    return "perhaps"


def _next_frame_end(view: memoryview) -> int:
    """Return where the first incomplete frame ends, or where its size does."""
    at = 0
    for _ in range(_MAX_FRAMES):
        if at + 4 > len(view):
            return at + 4
        size = int(_INT32(view, at)[0])
        if not 0 <= size <= LARGEST_FRAME_BYTES:
            break
        at += size + 4
        if at > len(view):
            return at
    return _NEVER


Wire: TypeAlias = Literal["kafka", "kafka after tokens", "kafka-0.7"]

_MAX_RECHECKED_BYTES = 64 * 1024
"""An incomplete request of up to this size is checked again when more bytes come."""
_MAX_TRIES = 16
"""Requests without evidence that are skipped in each scan."""
_MAX_INCOMPLETE = 64
"""How many incomplete requests are remembered, to check what follows them."""
_MAX_WAITING = 16
"""Requests without a client id whose response is searched for."""
_ENOUGH_IN_A_ROW = 3
_ENOUGH_ANSWERED = 2
_MIN_BYTES = 8
"""No request of any version is recognized by fewer bytes: a size, an API, a version."""


class ScanState:
    """The progress of the scan in one direction; positions as in ``ReplayBuffer``.

    Attributes:
        searched: no request with evidence begins before it.
        searched_07: the same for Kafka 0.7.
        waiting: requests without evidence so far, and whether their response must fit exactly.
        incomplete: incomplete requests with a client id, and the stream offsets of their ends.
        is_sequence: some requests followed one another, with rising correlation ids.
    """

    __slots__ = (
        "incomplete",
        "is_sequence",
        "next_answer_end",
        "next_end",
        "searched",
        "searched_07",
        "waiting",
    )
    _SAVED = Saved(
        "searched:count searched_07:count next_end:count next_answer_end:count is_sequence:bool "
        "waiting:list[(RequestHead,bool)] incomplete:list[(count,RequestHead)]",
        RequestHead,
    )

    def __init__(self) -> None:
        self.searched = 0
        self.searched_07 = 0
        self.next_end = 1
        self.next_answer_end = 1
        self.is_sequence = False
        self.waiting: list[tuple[RequestHead, bool]] = []
        self.incomplete: list[tuple[int, RequestHead]] = []

    def wait_for(self, head: RequestHead, *, to_the_byte: bool = False) -> None:
        """Note a request whose response would be evidence; only the last few are kept."""
        if (head, to_the_byte) not in self.waiting:
            self.waiting.append((head, to_the_byte))
            del self.waiting[:-_MAX_WAITING]
            self.next_answer_end = 1

    def note_incomplete(self, end_offset: int, head: RequestHead) -> None:
        """Note an incomplete request; if there are too many, those that end first are kept."""
        if (end_offset, head) not in self.incomplete:
            self.incomplete.append((end_offset, head))
            if len(self.incomplete) > _MAX_INCOMPLETE:
                self.incomplete.remove(max(self.incomplete))


class RequestScanner:
    """Scans directions for requests."""

    def __init__(self, reader: MessageReader, locate: RequestLocator) -> None:
        self._reader = reader
        self._locate = locate

    def look(
        self, scan: ScanState, buffer: ReplayBuffer, other: ReplayBuffer, *, last: bool = False
    ) -> Wire | None:
        """Scan the bytes that came since the last call; None if there is no evidence (yet).

        ``last``: no more bytes will come.
        """
        if scan.incomplete and self._is_followed(scan, buffer, last=last):
            return "kafka"
        if (buffer.end >= scan.next_end or last) and _has_enough(scan, buffer):
            wire = self._scan_runs(scan, buffer, last=last)
            if wire is not None:
                return wire
            open_bytes = buffer.end - min(scan.searched, scan.searched_07)
            # An incomplete request is checked again when half as much more has come.
            scan.next_end = buffer.end + (0 if open_bytes < _FEW_BYTES else open_bytes // 2) + 1
        return "kafka" if self._is_answered(scan, other, last=last) else None

    def _scan_runs(self, scan: ScanState, buffer: ReplayBuffer, *, last: bool) -> Wire | None:
        """Scan one contiguous run after the other; a request never continues after a hole."""
        scan.searched = max(scan.searched, buffer.begin)
        scan.searched_07 = max(scan.searched_07, buffer.begin)
        while True:
            at = min(scan.searched, scan.searched_07)
            end = buffer.runs.end_after(at)
            if end is None:
                return self._scan_run(scan, buffer, buffer.end, final=last)
            wire = self._scan_run(scan, buffer, end, final=True)
            if wire is not None:
                return wire
            scan.searched = scan.searched_07 = end

    def _scan_run(
        self, scan: ScanState, buffer: ReplayBuffer, end: int, *, final: bool
    ) -> Wire | None:
        if self._has_request(scan, buffer, end, final=final):
            return "kafka"
        # Streams that begin like Kafka need no scan, nor the modules that read 0.7.
        from kanalyze.kafka.v07.resync import Request07Locator, is_sound_request

        view = buffer.read(scan.searched_07, end)
        begin, keep = Request07Locator()(view)
        if begin is not None and is_sound_request(view[begin:]):
            return "kafka-0.7"
        scan.searched_07 += keep if begin is None else begin + 1
        return None

    def _has_request(self, scan: ScanState, buffer: ReplayBuffer, end: int, *, final: bool) -> bool:
        """Return true if a request of later versions is found from ``searched`` to ``end``."""
        first = scan.searched
        view = buffer.read(first, end)
        keep = max(0, len(view) - _HEAD_BYTES + 1)
        is_open = False
        for at, verdict in islice(self._locate.candidates(view), _MAX_TRIES):
            position, rest_of_view = first + at, view[at:]
            if verdict == "yes":
                if self._has_evidence(scan, buffer, position, rest_of_view):
                    return True
                continue
            if carries_records(self._reader, rest_of_view):
                return True
            self._note_incomplete(scan, buffer, position, rest_of_view)
            if final:
                self._wait_if_cut(scan, buffer, position, rest_of_view)
            elif not is_open and len(rest_of_view) < _MAX_RECHECKED_BYTES:
                # It is checked again with the bytes that follow.
                keep, is_open = at, True
        scan.searched += keep
        return False

    def _has_evidence(
        self, scan: ScanState, buffer: ReplayBuffer, position: int, view: memoryview
    ) -> bool:
        """Return true if the request at ``position`` has evidence; else wait for its response."""
        head = read_head(self._reader, view)
        if head is None:
            return False
        if head.is_named:
            return True
        end = position + head.end
        if buffer.segment_at(position) and (end == buffer.end or buffer.segment_at(end)):
            # Small requests are sent in segments of their own; small numbers fit anywhere.
            scan.wait_for(head)
            scan.is_sequence = scan.is_sequence or self._is_sequence(view)
        return False

    def _note_incomplete(
        self, scan: ScanState, buffer: ReplayBuffer, position: int, view: memoryview
    ) -> None:
        """Note an incomplete request, to check that another one begins where it ends.

        Its own bytes prove little: read from the wrong byte, a ZooKeeper path looks like a client
        id.
        """
        head = read_head(self._reader, view)
        if head is not None and head.is_named:
            scan.note_incomplete(buffer.offset_of(position) + head.end, head)

    def _is_followed(self, scan: ScanState, buffer: ReplayBuffer, *, last: bool) -> bool:
        """Return true if an incomplete request is followed by one with the same client id.

        Each is checked once, when its end has come; after that its response is evidence.
        """
        for end_and_head in scan.incomplete.copy():
            end_offset, head = end_and_head
            size = _HEAD_BYTES + len(head.name.encode()) + 1
            if end_offset + size > buffer.end_offset and not last:
                continue
            scan.incomplete.remove(end_and_head)
            view = buffer.read_at(end_offset, size)
            follower = read_head(self._reader, view)
            if (
                follower is not None
                and follower.name == head.name
                and follower.correlation_id != head.correlation_id
                and self._locate.verdict(view) != "no"
            ):
                return True
            if end_offset <= buffer.end_offset:
                # A request whose last byte never came was not answered.
                scan.wait_for(head, to_the_byte=True)
        return False

    def _wait_if_cut(
        self, scan: ScanState, buffer: ReplayBuffer, position: int, view: memoryview
    ) -> None:
        """Note a request that the snap length cut and that fills a segment to the byte."""
        head = read_head(self._reader, view)
        if head is not None and head.is_named and buffer.segment_at(position) == head.end:
            scan.wait_for(head)

    def _is_sequence(self, view: memoryview) -> bool:
        """Return true if requests follow one another, with correlation ids that rise by 1."""
        at, before = 0, None
        for _ in range(_ENOUGH_IN_A_ROW):
            head = read_head(self._reader, view[at:])
            if head is None or self._locate.verdict(view[at:]) != "yes":
                return False
            number = int.from_bytes(head.correlation_id, "big")
            if before is not None and number != before + 1:
                return False
            before, at = number, at + head.end
        return True

    def _is_answered(self, scan: ScanState, other: ReplayBuffer, *, last: bool) -> bool:
        """Return true if one request with a client id, or two without one, got a response.

        If the other end was not captured, requests that follow one another are enough.
        """
        if not scan.waiting:
            return False
        if last and not other.payload_bytes:
            return scan.is_sequence
        if other.end < scan.next_answer_end and not last:
            return False
        scan.next_answer_end = other.end + other.captured_bytes // 8 + 1
        answered = [
            head
            for head, to_the_byte in scan.waiting
            if has_answer(self._reader, head, other, 0, to_the_byte=to_the_byte)
        ]
        return any(head.name for head in answered) or (
            len({head.correlation_id for head in answered}) >= _ENOUGH_ANSWERED
        )


def _has_enough(scan: ScanState, buffer: ReplayBuffer) -> bool:
    return buffer.end - max(buffer.begin, min(scan.searched, scan.searched_07)) >= _MIN_BYTES
