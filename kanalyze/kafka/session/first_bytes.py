"""Classifies the first bytes of a direction: Kafka, Kafka 0.7, SASL tokens, or something else.

In: the bytes of a stream from its first one on, as they come. Out: verdicts.

The bytes are checked again only when the verdict may change: at the end of a frame, or when a
quarter more has come. So a stream of one-byte segments takes only a few times as long as a stream
that comes at once.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.framer import LARGEST_FRAME_BYTES
from kanalyze.kafka.session.heuristics import RequestHead, names_client, read_head
from kanalyze.kafka.session.plausible_headers import (
    LONGEST_CLIENT_ID_BYTES,
    highest_plausible_version,
)
from kanalyze.kafka.session.resync import after_tokens
from kanalyze.kafka.v07.first_request import verdict_07

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.replay_buffer import ReplayBuffer
    from kanalyze.kafka.session.resync import RequestLocator
    from kanalyze.kafka.v07.resync import Verdict
    from kanalyze.model.streams import Segments

__all__ = ["FirstBytes", "FirstBytesReader"]

_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from
_CONTROLLED_SHUTDOWN = 7
_HEAD_BYTES = 14
"""Size, key, version, correlation id, length of the client id."""
_SMALLEST_BYTES = 10
_FEW_BYTES = 64
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
        first.tokens = after_tokens(view, self.verdict) if first.new == "no" else "no"
        if len(view) < _FEW_BYTES and first.new == "no" and first.tokens == "no":
            # This may be a token whose head is incomplete.
            first.tokens = _tokens_may_begin(view)
        first.heads = [] if first.new == "no" else self._heads(view, first.new)
        first.schedule_next_check(view)

    def settles(self, segments: Segments, index: int) -> bool:
        """Return true if a segment begins with a request, whatever follows.

        The request is complete, fits, has a client id, and is no request of Kafka 0.7. The segment
        was captured to its end.
        """
        header = self._locate.whole_request(segments, index)
        if header is None:
            return False
        begin = segments.start[index]
        view = segments.view(begin, begin + segments.length[index])
        return names_client(view, header) and verdict_07(view) != "yes"

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
