"""Anonymizes messages: bytes in, bytes of the same length out.

In: a frame with its size prefix, its API, version and kind. Out: an :class:`AnonymousMessage`.

A body is walked by its definition. Numbers, lengths and counts are copied; every other field is
replaced by its rule (:mod:`.rules`). If the definition does not fit the bytes, the body is not
copied: it is filled with bytes that do not fit the definition either.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from kanalyze.anonymization.contents import blank, member_data, token
from kanalyze.anonymization.records import RecordBlanker, overlaps
from kanalyze.anonymization.rules import (
    ARRAY,
    COMPACT,
    FIXED,
    FIXED_ARRAY,
    ID,
    NULLABLE,
    SHORT,
    SIZED,
    TAGS,
    WIDE,
    WORDS,
    Rule,
    steps_of,
)
from kanalyze.common.caches import remember
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.decoding.bodies import BodyReader
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.schema_ast import Layout
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.anonymization.records import Ranges
    from kanalyze.anonymization.rules import Step, Steps
    from kanalyze.anonymization.stand_ins import StandIns
    from kanalyze.decoding.bodies import BodyLocation
    from kanalyze.kafka.schema.catalog import Catalog, Kind
    from kanalyze.kafka.schema.schema_ast import MessageSpec

__all__ = ["AnonymousMessage", "MessageAnonymizer"]

_PREFIX_BYTES: Final = 4
_HEAD_BYTES: Final = 8
"""Of a response: size and correlation id; of a request: size, API key and version."""
_CLIENT_ID_AT: Final = 12
_UNREADABLE: Final = b"\xff"
_MAX_BEGIN_BYTES: Final = 6
"""Size of a throttle time and an error code, which many responses begin with."""
_NO_HOLE: Final = 1 << 62
_MAX_PLANS: Final = 4096
_ENVELOPE: Final = 58
_size: Final = Struct(">i").pack
_int16: Callable[[bytes, int], tuple[int]] = Struct(">h").unpack_from
_int32: Callable[[bytes, int], tuple[int]] = Struct(">i").unpack_from
_api: Callable[[bytes, int], tuple[int, int]] = Struct(">hh").unpack_from


class AnonymousMessage(NamedTuple):
    """A frame without names and contents."""

    data: bytes
    """The frame with its size prefix, as long as the original."""
    records: list[tuple[int, int]]
    """Ranges of the records in it, without batch headers."""
    is_read: bool
    """Whether its body could be read; otherwise the whole body is blanked."""


class _UnreadableBody(Exception):
    """A body does not fit its definition."""


class _Missing(Exception):
    """A length, count or marker that the walk needs is among the missing bytes."""


class MessageAnonymizer:
    """Makes messages anonymous, one at a time."""

    def __init__(self, catalog: Catalog, stand_ins: StandIns) -> None:
        self._catalog = catalog
        self._stand_ins = stand_ins
        self._reader = BodyReader(catalog, Decoders(catalog))
        self._plans: dict[tuple[str, int, int], Steps] = {}
        self.records = RecordBlanker(stand_ins)

    def message(
        self,
        data: bytes,
        api_key: int | None,
        api_version: int | None,
        kind: Kind,
        holes: Ranges = (),
        forwarded: tuple[int, int] | None = None,
    ) -> AnonymousMessage:
        """Return a frame without names and contents; raises nothing, whatever the bytes are.

        Args:
            data: the frame with its size prefix; bytes in ``holes`` are missing, and zero.
            api_key: key of the API; None for a response whose request is unknown.
            api_version: version in the request; None as above.
            kind: ``request`` or ``response``.
            holes: ranges of the frame that the capture lacks, in ascending order.
            forwarded: API key and version of the request inside, for the response of an Envelope.
        """
        walk = _Walk(self, data, holes, forwarded)
        try:
            is_read = walk.frame(api_key, api_version, kind)
        except (_Missing, IndexError):
            is_read = False
        return AnonymousMessage(walk.finished(), walk.records, is_read)

    def forwarded(self, data: bytes) -> tuple[int, int] | None:
        """Return API key and version of the request inside an Envelope; None if there is none."""
        walk = _Walk(self, data, (), None)
        try:
            walk.frame(_ENVELOPE, _api(data, _PREFIX_BYTES)[1], "request")
        except (_Missing, IndexError):
            return None
        return walk.inner

    def locate_body(
        self, data: bytes, api_key: int, api_version: int, kind: Kind
    ) -> BodyLocation | None:
        """Return where the body of a frame begins, and its definition and version.

        None if the header cannot be read.
        """
        try:
            return self._reader.locate_body(data, api_key, api_version, kind)
        except WireError:
            return None

    def plan(self, definition: MessageSpec, version: int) -> Steps:
        """Return the steps that walk a body."""
        key = definition.name, version, len(definition.releases)
        steps = self._plans.get(key)
        if steps is None:
            steps = steps_of(Layout(definition, version), definition.struct)
            remember(self._plans, key, steps, _MAX_PLANS)
        return steps

    def content(self, rule: Rule, content: bytes) -> bytes:
        """Return the replacement for the content of a field with this rule."""
        if rule is Rule.NAME:
            return self._stand_ins.name(content)
        if rule is Rule.WORD:
            return self._stand_ins.name_but(content, WORDS)
        if rule is Rule.HOST:
            return self._stand_ins.host(content)
        if rule is Rule.UUID:
            return self._stand_ins.uuid(content)
        if rule is Rule.TOKEN:
            return token(content, self._stand_ins)
        if rule in (Rule.SUBSCRIPTION, Rule.ASSIGNMENT):
            is_subscription = rule is Rule.SUBSCRIPTION
            return member_data(content, self._stand_ins, is_subscription=is_subscription)
        return blank(len(content))


class _Walk:
    """One walk over a frame. Bytes that were read as numbers are copied, and no others."""

    def __init__(
        self,
        anonymizer: MessageAnonymizer,
        data: bytes,
        holes: Ranges,
        forwarded: tuple[int, int] | None,
    ) -> None:
        self._anonymizer = anonymizer
        self._data = data
        self._holes = holes
        self._first_hole = holes[0][0] if holes else _NO_HOLE
        self._forwarded = forwarded
        self._parts: list[bytes | bytearray] = []
        self._copied = 0
        """The parts have the replacement of all bytes before this position."""
        self._at = 0
        """All bytes before this position were read. Those from ``_copied`` on are numbers."""
        self.records: list[tuple[int, int]] = []
        self.inner: tuple[int, int] | None = None
        """API key and version of the request inside an Envelope."""

    def finished(self) -> bytes:
        """Return the anonymized frame; bytes that the walk did not come to are zero."""
        self._flush()
        self._parts.append(bytes(len(self._data) - self._at))
        self._copied = len(self._data)
        return b"".join(self._parts)

    def frame(self, api_key: int | None, api_version: int | None, kind: Kind) -> bool:
        """Walk a whole frame; return whether its body could be read."""
        self._pass(_HEAD_BYTES)
        if api_key is None or api_version is None:
            return False
        location = self._anonymizer.locate_body(self._data, api_key, api_version, kind)
        if location is None:
            return False
        self._header(kind, location.header_version, location.body)
        if location.definition is None or location.version is None:
            return False
        self._flush()
        body_parts, body_at = len(self._parts), self._at
        steps = self._anonymizer.plan(location.definition, location.version)
        try:
            self._walk(steps)
        except (_UnreadableBody, IndexError):
            is_read = False
        else:
            is_read = location.known or self._at == len(self._data)
        if is_read:
            self._rest()
        else:
            self._discard_body(body_parts, body_at, steps)
        return is_read

    def _rest(self) -> None:
        """Fill what is after the body: a few zeros are padding, which any other byte is not."""
        size = len(self._data) - self._at
        if any(self._data[self._at :]):
            self._put(_UNREADABLE * size, size)

    def _discard_body(self, parts: int, at: int, steps: Steps) -> None:
        """Discard the parts of the body, and fill the body.

        The numbers that it begins with stay, most often an error code: readers decide by it how to
        read the rest.
        """
        del self._parts[parts:]
        begin = steps[0][1] if steps and steps[0][0] == FIXED else 0
        end = min(at + begin, at + _MAX_BEGIN_BYTES, len(self._data))
        self._parts += (self._data[at:end], _UNREADABLE * (len(self._data) - end))
        self._copied = self._at = len(self._data)
        self.records.clear()

    # -- bytes ------------------------------------------------------------------------------------

    def _pass(self, size: int) -> None:
        """Copy bytes that are numbers."""
        if self._at + size > len(self._data):
            raise IndexError
        self._at += size

    def _put(self, content: bytes | bytearray, size: int) -> None:
        """Replace the next ``size`` bytes by ``content``."""
        self._flush()
        self._parts.append(content)
        self._copied = self._at = self._at + size

    def _flush(self) -> None:
        if self._copied < self._at:
            self._parts.append(self._data[self._copied : self._at])
            self._copied = self._at

    def _need(self, size: int) -> None:
        """Raise _Missing if the capture lacks any of the next ``size`` bytes."""
        at = self._at
        if at + size > self._first_hole and overlaps(self._holes, at, at + size):
            raise _Missing

    def _length(self, form: int) -> int:
        """Read a length, or a count; -1 is null."""
        data, at = self._data, self._at
        if at + 5 > self._first_hole:
            self._need(2 if form == SHORT else 4 if form == WIDE else 1)
        if form == COMPACT:
            byte = data[at]
            if byte < 0x80:
                self._at = at + 1
                return byte - 1
            return self._unsigned() - 1
        if form == SHORT:
            if at + 2 > len(data):
                raise IndexError
            self._at = at + 2
            length = _int16(data, at)[0]
        else:
            if at + 4 > len(data):
                raise IndexError
            self._at = at + 4
            length = _int32(data, at)[0]
        if length < -1:
            raise _UnreadableBody
        return length

    def _unsigned(self) -> int:
        value = 0
        for shift in (0, 7, 14, 21, 28):
            self._need(1)
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise _UnreadableBody

    def _content(self, size: int, rule: Rule) -> None:
        at = self._at
        if at + size > len(self._data):
            raise IndexError
        if rule is Rule.RECORDS:
            self._records(size)
            return
        if at + size > self._first_hole and overlaps(self._holes, at, at + size):
            self._put(blank(size), size)
            return
        content = self._data[at : at + size]
        if rule is Rule.MESSAGE:
            self._put(self._message(content), size)
        else:
            self._put(self._anonymizer.content(rule, content), size)

    def _records(self, size: int) -> None:
        at = self._at
        holes: Sequence[tuple[int, int]] = ()
        if at + size > self._first_hole:
            holes = [
                (max(begin - at, 0), min(end - at, size))
                for begin, end in self._holes
                if begin < at + size and end > at
            ]
        blanked, records = self._anonymizer.records.blank(self._data[at : at + size], holes)
        self.records += [(at + begin, at + end) for begin, end in records]
        self._put(blanked, size)

    def _message(self, content: bytes) -> bytes:
        """Anonymize the message inside an Envelope, which has no size prefix."""
        frame = _size(len(content)) + content
        kind: Kind = "response"
        ids = self._forwarded
        if ids is None:
            if len(content) < _PREFIX_BYTES:
                return bytes(len(content))
            kind, ids = "request", _api(content, 0)
            self.inner = ids
        if ids[0] == _ENVELOPE:
            return bytes(len(content))
        return self._anonymizer.message(frame, *ids, kind).data[_PREFIX_BYTES:]

    # -- headers ----------------------------------------------------------------------------------

    def _header(self, kind: Kind, version: int, body: int) -> None:
        if kind == "request":
            self._pass(_CLIENT_ID_AT - _HEAD_BYTES)
            if version:
                size = self._length(SHORT)
                if size > 0:
                    self._content(size, Rule.NAME)
            version -= 1
        if version > 0 and body > self._at:
            self._tags({})
        if self._at != body:
            raise IndexError

    # -- bodies -----------------------------------------------------------------------------------

    def _walk(self, steps: Steps) -> None:
        for step in steps:
            code = step[0]
            if code == FIXED:
                self._at += step[1]
                if self._at > len(self._data):
                    raise IndexError
            elif code == SIZED:
                size = self._length(step[1])
                if size > 0:
                    self._content(size, step[2])
            elif code == ARRAY:
                for _ in range(self._count(step[1])):
                    self._walk(step[2])
            elif code == FIXED_ARRAY:
                count = self._length(step[1])
                self._at += max(count, 0) * step[2]
                if self._at > len(self._data):
                    raise IndexError
            elif code == TAGS:
                self._tags(step[1])
            else:
                self._rare(code, step)

    def _rare(self, code: int, step: Step) -> None:
        if code == ID:
            self._content(16, Rule.UUID)
        elif code != NULLABLE or self._marker():
            self._walk(step[1])

    def _count(self, form: int) -> int:
        count = self._length(form)
        if count > len(self._data) - self._at:
            raise _UnreadableBody
        return count

    def _marker(self) -> bool:
        self._need(1)
        marker = self._data[self._at]
        if marker not in (0xFF, 1):
            raise _UnreadableBody
        self._at += 1
        return marker == 1

    def _tags(self, steps_of_tag: dict[int, Steps]) -> None:
        """Walk a section of tagged fields; unknown ones are blanked."""
        if self._at < self._first_hole and not self._data[self._at]:
            self._at += 1  # most sections are empty
            return
        for _ in range(self._unsigned()):
            tag = self._unsigned()
            size = self._unsigned()
            end = self._at + size
            if end > len(self._data):
                raise IndexError
            steps = steps_of_tag.get(tag)
            if steps is None:
                self._put(bytes(size), size)
                continue
            self._walk(steps)
            if self._at != end:
                raise _UnreadableBody
