"""Reads messages that are whole and in order, without an object for a frame, a header or a body.

In: frames that lie in segments of one batch (``CutFrame`` in ``frame.pxd``). Out: the header as
numbers (``RequestHead`` in ``whole_messages.pxd``), and the selected fields of the body on a tape
that all bodies share. All else, also whatever is wrong with a message or its batches of records, is
left to :class:`~kanalyze.kafka.session.message_reader.MessageReader`, which reads it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.codec.machine import Tape
from kanalyze.kafka.codec.values import Texts
from kanalyze.kafka.wire import Malformed

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import (
        bytes_from,
        cython,  # addresses of structs are the structs
        int16_in,
        int32_in,
        new_record,
        start_of,
    )
    from kanalyze.kafka.codec.machine import varint_at, varint_width
    from kanalyze.kafka.codec.values import DONE, RUNNING, shared_tape
    from kanalyze.kafka.framing.frame import request_header_of
    from kanalyze.kafka.session.decode_plans import API_VERSIONS, UNSUPPORTED_VERSION
    from kanalyze.kafka.session.exchange import NO_ID

    # Without record data. Values take up to 43 times as much (measured over all messages); the
    # metadata of 200,000 partitions is about 10 MB.
    LARGEST_BODY_BYTES = 16 * 1024 * 1024

    NOT_THERE = -9  # in place of acks

MIN_HEADER_BYTES = 14  # size, key, version, correlation id, length of a client id

# Of a batch (magic 2), and of a message (magic 0 and 1): where its checksum is, and where the
# bytes begin that it is of.
MAGIC_AT = 16
CRC_AT, SUMMED_FROM = 17, 21
OLD_CRC_AT, OLD_SUMMED_FROM = 12, 16

if TYPE_CHECKING:
    from kanalyze.kafka.codec.machine import Machine
    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.framing.framer import CutFrames
    from kanalyze.kafka.session.decode_plans import DecodePlan, DecodePlans
    from kanalyze.kafka.session.exchange import Message
    from kanalyze.model.streams import Segments

_LONGEST_VARINT_BYTES = 5


class WholeMessages:
    """Reads headers and bodies; one for all connections.

    Attributes:
        last_head: the header of the request that is being read.
        reads_bodies: false where somebody needs more of a body than its fields.
        batches: how many batches of records the last body has, if they are checked.
        checked: how many of them were checked.
    """

    def __init__(self, plans: DecodePlans, *, checks_crc: bool) -> None:
        self._plans = plans
        self._client_ids = Texts()
        self._tape: Tape | None = None
        self._crc32c: Any = None
        self._crc32: Any = None
        """The checksums of batches and of older messages, if they are checked."""
        if checks_crc:
            # imported late: not always used
            from kanalyze.kafka.records.compression import checksum_of

            self._crc32c, self._crc32 = checksum_of(2), checksum_of(0)
        self.reads_bodies = True
        self.batches = self.checked = 0
        if not cython.compiled:
            self._head, self.last_head = new_record(), new_record()

    def header_of(self, frame: Frame) -> RequestHeader | None:
        """Read a header that is contiguous and in order; None for any other."""
        segments = frame.segments
        if segments is None or frame.contiguous_bytes < MIN_HEADER_BYTES:
            return None
        head = cython.address(self._head)
        data = start_of(segments.data)
        if not self._parse(bytes_from(data, frame.begin), frame.contiguous_bytes, head):
            return None
        client_id = None
        if head.text_end >= 0:
            begin = frame.begin
            client_id = self._client_ids.text(data, begin + head.text_at, begin + head.text_end)
        return request_header_of(
            head.api_key, head.api_version, head.correlation_id, client_id, head.body
        )

    def head(self, cut: CutFrames, index: int, head: Any) -> bool:
        """Read the header of a frame that is no object into ``head``; false for an unusual one."""
        frame = cython.address(cut.items[index])
        if frame.is_object or frame.contiguous < MIN_HEADER_BYTES:
            return False
        return self._parse(frame.data, frame.contiguous, head)

    def client_id(self, cut: CutFrames, index: int, head: Any) -> str | None:
        """Return the client id of a header that :meth:`head` has read."""
        if head.text_end < 0:
            return None
        return self._client_ids.text(cut.items[index].data, head.text_at, head.text_end)

    def _parse(self, data: memoryview, limit: int, head: Any) -> bool:
        """Read a header, at least ``MIN_HEADER_BYTES`` of it, up to ``limit``.

        Returns false if the API is not known, or if the header has no client id, or tags.
        """
        head.api_key, head.api_version = int16_in(data, 4), int16_in(data, 6)
        plan = self._plans.request(head.api_key, head.api_version)
        length = int16_in(data, 12)
        if plan.definition is None or plan.header_version == 0 or length < -1:
            return False
        head.text_at = end = MIN_HEADER_BYTES
        head.text_end = -1
        if length >= 0:
            end += length
            if end > limit:
                return False
            head.text_end = end
        if plan.header_version == 2:
            if end >= limit or data[end] != 0:
                return False
            end += 1
        head.correlation_id = int32_in(data, 8)
        head.body = end
        return True

    def tape(self) -> Tape:
        """Return the tape that bodies share: each stays there that :meth:`take` has taken."""
        if self._tape is None:
            self._tape = shared_tape()
        return self._tape

    def take(self, message: Message, decode: BodyDecoder, read_as: int) -> None:
        """Let a message have what a decoder has left on the shared tape."""
        message.take(decode, read_as)
        machine = decode.machine
        self._tape = machine.tape
        self._tape.keep(machine.used, machine.arena_used)

    def request(self, cut: CutFrames, index: int, head: Any) -> BodyDecoder | None:
        """Read the selected fields of a request that is no object, to the shared tape.

        Returns the decoder that has read them. None if there is more to be said than that it was
        read to the end: that is for :meth:`MessageReader.request_body`.
        """
        return self._whole(
            cut, index, head.body, self._plans.request(head.api_key, head.api_version)
        )

    def acks(self, cut: CutFrames, index: int, head: Any) -> int:
        """Return ``acks`` of a Produce request that :meth:`request` has read.

        ``NOT_THERE`` if they are not in the first segment.
        """
        frame = cython.address(cut.items[index])
        end = acks_at(frame.data, head.body, frame.contiguous, head.api_version)
        if end + 2 <= frame.contiguous:
            return int16_in(frame.data, end)
        return NOT_THERE

    def correlation_id(self, cut: CutFrames, index: int) -> int:
        """Return a response's correlation id; ``NO_ID`` if it has to be read from an object."""
        frame = cython.address(cut.items[index])
        if not frame.is_object and frame.contiguous >= 8:
            return int32_in(frame.data, 4)
        return NO_ID

    def response(
        self, cut: CutFrames, index: int, api_key: int, api_version: int
    ) -> BodyDecoder | None:
        """As :meth:`request`, the response to a request of that key and version."""
        frame = cython.address(cut.items[index])
        if frame.is_object:
            return None
        if api_key == API_VERSIONS and (
            frame.contiguous < 10 or int16_in(frame.data, 8) == UNSUPPORTED_VERSION
        ):
            return None
        plan = self._plans.response(api_key, api_version)
        if plan.header_version == 0:
            return self._whole(cut, index, 8, plan)
        if frame.contiguous < 9 or frame.data[8] != 0:
            return None
        return self._whole(cut, index, 9, plan)

    def _whole(self, cut: CutFrames, index: int, at: int, plan: DecodePlan) -> BodyDecoder | None:
        decode, frame = plan.decode, cython.address(cut.items[index])
        if (
            not self.reads_bodies
            or frame.is_object
            or decode is None
            or not plan.known
            or plan.superseded is not None
            or at > frame.length
            or frame.length > LARGEST_BODY_BYTES
        ):
            return None
        machine = decode.machine
        # Readers that check batches, and others, may share the machine.
        machine.noting = self._crc32c is not None and has_checked_batches(plan.key >> 16)
        machine.begin(decode.address, decode.stack_cells, frame.length - at, self.tape())
        if at <= frame.contiguous:
            machine.feed_at(frame.data, at, frame.contiguous)
        if machine.status == RUNNING:
            _feed(machine, frame, cut.segments(index))
        if machine.status != DONE or machine.remaining_bytes != 0:
            return None
        self.batches, self.checked = machine.batches, machine.noted
        if machine.noted > 0 and not self._has_right_crcs(frame, cut.segments(index), machine):
            return None
        return decode

    def _has_right_crcs(self, frame: Any, segments: Segments, machine: Machine) -> bool:
        """Check the batches that a machine has noted in a frame; false if one is wrong."""
        notes, lengths, starts = machine.notes, segments.lengths, segments.starts
        index, offset = frame.first, -frame.skip
        for number in range(machine.noted):
            at = frame.length - notes[2 * number]
            end = at + notes[2 * number + 1]
            while offset + lengths[index] <= at:
                offset += lengths[index]
                index += 1
            if at + SUMMED_FROM <= offset + lengths[index]:
                head = bytes_from(start_of(segments.data), starts[index] - offset + at)
            else:
                joined = b"".join(_views(segments, index, offset, at, at + SUMMED_FROM))
                head = start_of(joined)
            if head[MAGIC_AT] == 2:
                checksum, begin, expected = self._crc32c, at + SUMMED_FROM, int32_in(head, CRC_AT)
            else:
                checksum = self._crc32
                begin, expected = at + OLD_SUMMED_FROM, int32_in(head, OLD_CRC_AT)
            if _summed(checksum, segments, index, offset, begin, end) != expected & 0xFFFFFFFF:
                return False
        return True


def has_checked_batches(api_key: int) -> bool:
    """Return whether the batches of an API's messages are checked: Produce, Fetch, ShareFetch.

    Snapshots (FetchSnapshot) are left out: they are sent in parts that begin within a batch.
    """
    return api_key in (0, 1, 78)


def _summed(
    checksum: Any, segments: Segments, index: int, offset: int, begin: int, end: int
) -> int:
    """Return the checksum of the bytes of a frame from position ``begin`` to ``end``.

    For ``index`` and ``offset`` see :func:`_views`. Nothing is listed or joined: to do so takes
    longer than the checksum.
    """
    starts, lengths = segments.starts, segments.lengths
    value = 0
    while offset < end:
        after = offset + lengths[index]
        if after > begin:
            start = starts[index] - offset
            piece = segments.buffer[start + max(offset, begin) : start + min(after, end)]
            value = checksum(piece, value)
        offset = after
        index += 1
    return value


def _views(segments: Segments, index: int, offset: int, begin: int, end: int) -> list[memoryview]:
    """Return the bytes of a frame from position ``begin`` to ``end``; all are in segments.

    The segment ``index`` begins at position ``offset`` of the frame.
    """
    starts, lengths = segments.starts, segments.lengths
    views: list[memoryview] = []
    while offset < end:
        after = offset + lengths[index]
        if after > begin:
            start = starts[index] - offset
            views.append(segments.buffer[start + max(offset, begin) : start + min(after, end)])
        offset = after
        index += 1
    return views


def _feed(machine: Machine, frame: Any, segments: Segments) -> None:
    """Run over the rest of a frame; all of it is in the segments."""
    lengths, data = segments.lengths, start_of(segments.data)
    index, begin = frame.first, -frame.skip
    while machine.status == RUNNING:
        at = machine.next_at(frame.length)
        if at >= frame.length:
            machine.feed_at(data, 0, 0)
            continue
        while begin + lengths[index] <= at:
            begin += lengths[index]
            index += 1
        end = min(begin + lengths[index], frame.length)
        start = segments.starts[index] - begin
        machine.feed_at(data, start + at, start + end)


def acks_at(data: memoryview, at: int, limit: int, version: int) -> int:
    """Return the index of ``acks`` in a body at ``data[at:limit]``, which may be incomplete."""
    if version < 3:
        return at
    if version < 9:
        return at + 2 + (max(int16_in(data, at), 0) if at + 2 <= limit else 0)
    width = varint_width(data, at, limit)
    if width < 0:
        raise Malformed("a varint of more than 5 bytes")
    if width == 0:
        return at + _LONGEST_VARINT_BYTES
    return at + width + max(varint_at(data, at) - 1, 0)
