"""The machine that reads message bodies: programs in, a tape of numbers out.

In: programs (see :mod:`~kanalyze.kafka.codec.opcodes`) and the bytes of a body, in as many pieces
as they come. Out: cells on a tape, and the bytes of texts in an arena.

A body is read as its bytes come. The machine keeps only the selected fields and, between two
pieces, one value of less than :data:`CARRY_BYTES` that both share. It skips other fields and the
data of records: :attr:`Machine.skip` says how many bytes, so that the caller need not even touch
them.

Every index is checked. Every length and count is compared with the bytes that the body has left
before anything is allocated or skipped.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import (
        cells_from,
        copy_bytes,
        int16_in,
        int32_in,
        int64_in,
        start_of,
        texts_from,
        uint32_in,
        words_of,
    )
    from kanalyze.kafka.codec.opcodes import (
        ARRAY,
        COMPACT,
        CONTROL,
        ELEMENTS,
        END,
        HIDDEN_COUNT,
        HIDDEN_FIRST,
        INT8,
        INT16,
        INT32,
        INT64,
        JUMP,
        KEEP_UNKNOWN,
        LOOP,
        MALFORMED_RECORDS,
        MISSING_RECORDS,
        NEXT_TAG,
        NEXT_TAG_ADDRESS,
        NULLABLE,
        NULLS,
        RECORDS,
        SKIP,
        TAG_END,
        TAGS,
        TEXT,
        TRUNCATED_RECORDS,
        UINT8,
        UINT16,
        UINT32,
        UUID,
        WANTED,
        WIDE,
    )

    RUNNING, DONE, TRUNCATED, MALFORMED = range(4)
    MOST_CELLS = 16

CARRY_BYTES = 64
BATCH_HEADER_BYTES = 61
ENTRY_HEAD_BYTES = 12
MESSAGE_HEAD_BYTES = 18
MAGIC_AT = 16
MIN_BATCH_LENGTH = BATCH_HEADER_BYTES - ENTRY_HEAD_BYTES
MIN_MESSAGE_SIZE_0, MIN_MESSAGE_SIZE_1 = 14, 22
MIN_RECORD_BYTES = 7
CODEC_BITS = 7
CONTROL_BIT = 0x20
NO_TIMESTAMP = -1
TAG_CELLS = 5
MAX_NOTES = 65536

if TYPE_CHECKING:
    from collections.abc import Sequence


class Status:
    """The values of :attr:`Machine.status`."""

    RUNNING = 0
    """The machine waits for bytes."""
    DONE = 1
    """The body was read; bytes may be left over."""
    TRUNCATED = 2
    """The body ends before its fields do."""
    MALFORMED = 3
    """The bytes contradict the grammar."""


class Programs:
    """Programs, one after the other, that machines run."""

    def __init__(self) -> None:
        self.words = array("i", [END, NEXT_TAG])
        self.code = memoryview(self.words)
        self.size = 2

    def add(self, words: Sequence[int], relocations: Sequence[int]) -> int:
        """Add a program; return its address.

        ``relocations`` are the indices of the words that hold addresses; those count from the
        program's first word here, and from the table's first word once it is in the table.
        """
        address = self.size
        relocated = list(words)
        for index in relocations:
            relocated[index] += address
        # A new array: another machine may be running over the old one.
        self.words = self.words + array("i", relocated)
        self.code = memoryview(self.words)
        self.size = address + len(relocated)
        return address


class Tape:
    """The output of machines for many bodies: cells, and the bytes of texts."""

    def __init__(self, cells: int, arena_bytes: int) -> None:
        """Make room for ``cells`` and ``arena_bytes``; a tape does not grow."""
        self.cells = memoryview(array("q", [0]) * cells)
        self.arena = memoryview(bytearray(arena_bytes))
        self.used = 0
        self.arena_used = 0

    def has_room(self, cells: int, arena_bytes: int) -> bool:
        """Return true if there is room for more cells and bytes."""
        return self.used + cells <= len(self.cells) and self.arena_used + arena_bytes <= len(
            self.arena
        )

    def keep(self, cells: int, arena_bytes: int) -> None:
        """Let what a machine has written stay there: the next body is written behind it."""
        self.used += cells
        self.arena_used += arena_bytes

    def add(self, cells: memoryview, begin: int, count: int) -> None:
        """Add cells of another tape; the caller has checked that there is room."""
        at = self.used
        for i in range(count):
            self.cells[at + i] = cells[begin + i]
        self.used = at + count

    def add_bytes(self, arena: memoryview, begin: int, count: int) -> None:
        """Add bytes of another tape; the caller has checked that there is room."""
        at = self.arena_used
        for i in range(count):
            self.arena[at + i] = arena[begin + i]
        self.arena_used = at + count


class Machine:
    """Runs one program at a time over one body at a time.

    Bytes, cells and texts are pointers in compiled code: what :meth:`feed` is given, and the tape,
    are checked once, and then every position is compared with the end of the piece or the tape.

    Attributes:
        status: one of :class:`Status`.
        skip: bytes that come next and are not read.
        remaining_bytes: bytes of the body that were not consumed yet, with those carried.
        carried: bytes kept from the last piece, of a value that continues in the next one.
        tape: the tape that it writes to, from ``begin_at`` and ``arena_begin`` on: its own, or one
            that many bodies share. A body for which it has no room continues on a new tape.
        cells, texts: where the body begins on the tape and in its arena.
        used: cells of the body. ``arena_used``: bytes of its texts.
        room, arena_room: how many cells and bytes there may be.
        pc: address of the next instruction.
        inside: how many tagged fields the position is inside of.
        floor: bytes of the body that come after the innermost of them.
        copy: bytes that come next and go to the arena.
        records: bytes of the current records field that were not read; 0 outside of one.
        records_at: index of its first cell.
        noting: whether the places of batches and messages of records are noted.
        batches: how many of them the body has, up to here; those that are cut do not count.
        noted: how many of them were noted, the first ones.
        notes: for each of these, how many bytes before the body's end it begins, and its size.
    """

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.noting = False
        self.notes = memoryview(array("q", [0] * 16))
        self.stack = memoryview(array("q", [0] * 16))
        self.own_tape = Tape(_OWN_CELLS, _OWN_BYTES)
        self.carry = memoryview(bytearray(CARRY_BYTES))
        self.begin(0, 0, 0)

    def begin(
        self, address: int, stack_cells: int, body_bytes: int, tape: Tape | None = None
    ) -> None:
        """Begin a body of ``body_bytes`` with the program at an address; forget the last body.

        ``stack_cells`` is the most that the program needs of the stack. The body is written behind
        those on ``tape``, which ``Tape.keep`` makes stay there; without one, to a tape of its own.
        """
        if stack_cells > len(self.stack):
            self.stack = memoryview(array("q", [0] * stack_cells))
        self.status = RUNNING
        self.pc = address
        self.remaining_bytes = body_bytes
        self.floor = 0
        self.inside = 0
        self.skip = 0
        self.copy = 0
        self.records = 0
        self.records_at = 0
        self.depth = 0
        self.used = 0
        self.arena_used = 0
        self.carried = 0
        self.batches = self.noted = 0
        if tape is None:
            tape = self.own_tape
        self._write_to(tape)

    def _write_to(self, tape: Tape) -> None:
        """Write the body behind those on a tape."""
        self.tape = tape
        self.begin_at, self.arena_begin = tape.used, tape.arena_used
        self.room = len(tape.cells) - tape.used
        self.arena_room = len(tape.arena) - tape.arena_used
        self.cells = cells_from(tape.cells, tape.used)
        self.texts = texts_from(tape.arena, tape.arena_used)

    def feed(self, data: bytes | memoryview, pos: int, end: int) -> int:
        """Read the body's next bytes, ``data[pos:end]``; return the index where reading stopped.

        That is ``end``, unless the body ends before.
        """
        if not 0 <= pos <= end <= len(data):
            raise IndexError("a piece of a body outside of its bytes")
        return self.feed_at(start_of(data), pos, end)

    def feed_at(self, data: bytes | memoryview, pos: int, end: int) -> int:
        """As :meth:`feed`, of bytes that the caller has seen to be there."""
        if self.carried > 0:
            pos = self._feed_carried(data, pos, end)
        if self.status != RUNNING or (pos >= end and self.remaining_bytes > 0):
            return pos
        used = self._run(data, pos, end)
        if self.status == RUNNING:
            for i in range(end - used):  # of a value that continues in the next piece
                self.carry[i] = data[used + i]
            self.carried = end - used
            used = end
        return used

    def _feed_carried(self, data: bytes | memoryview, pos: int, end: int) -> int:
        """Complete the value that two pieces share; return the index after it in the new piece."""
        while self.carried > 0 and pos < end and self.status == RUNNING:
            old = self.carried
            take = min(end - pos, CARRY_BYTES - old)
            for i in range(take):
                self.carry[old + i] = data[pos + i]
            used = self._run(start_of(self.carry), 0, old + take)
            if used >= old:
                self.carried = 0
                pos += used - old
            else:
                self.carried = 0
                pos += take
                if self.status == RUNNING:
                    for i in range(old + take - used):
                        self.carry[i] = self.carry[used + i]
                    self.carried = old + take - used
        return pos

    def skip_missing_records(self) -> bool:
        """Continue after a records field in which the capture lacks a batch header.

        Called when the next bytes are missing; returns false if they are not in a records field.
        """
        if self.status != RUNNING or self.records == 0 or self.skip > 0:
            return False
        records_bytes = self.records
        self._end_records(MISSING_RECORDS)
        self.skip = records_bytes - self.carried
        self.remaining_bytes -= self.carried
        self.carried = 0
        return True

    def next_at(self, end: int) -> int:
        """Pass the bytes to skip; return where the next ones are if the body ends at ``end``."""
        self.remaining_bytes -= self.skip
        self.skip = 0
        return end - self.remaining_bytes + self.carried

    # -- the loop ---------------------------------------------------------------------------------

    def _run(self, data: bytes | memoryview, pos: int, end: int) -> int:  # noqa: C901
        """Run over bytes; return the index where more are needed, or where the body ended.

        This is one long function, and a switch on the opcode when compiled: calls between
        instructions would cost more than most instructions do.
        """
        code = words_of(self.programs.code)
        pc = self.pc
        frame_end = pos + self.remaining_bytes
        bound = frame_end - self.floor  # no value goes beyond the tagged field, or the body
        stop = min(end, bound)
        status = RUNNING
        while True:
            if self.room - self.used < MOST_CELLS:
                with cython.gil:
                    self._make_room(MOST_CELLS, 0)
            if self.skip > 0:
                have = end - pos
                if have < self.skip:
                    self.skip -= have
                    pos = end
                    break
                pos += self.skip
                self.skip = 0
            if self.copy > 0:
                have = end - pos
                value = min(have, self.copy)
                self._copy_bytes(data, pos, value)
                pos += value
                self.copy -= value
                if self.copy > 0:
                    break
            if self.records > 0:
                if self._entry(data, pos, end, frame_end - pos) == 0:
                    break
                continue
            op = code[pc]
            need = 0
            if op == INT32:
                need = 4
                if pos + 4 <= stop:
                    self._put(int32_in(data, pos))
                    pos += 4
                    pc += 1
                    continue
            elif op == INT16:
                need = 2
                if pos + 2 <= stop:
                    self._put(int16_in(data, pos))
                    pos += 2
                    pc += 1
                    continue
            elif op == INT64:
                need = 8
                if pos + 8 <= stop:
                    self._put(int64_in(data, pos))
                    pos += 8
                    pc += 1
                    continue
            elif op == SKIP:
                value = code[pc + 1]
                need = value
                if value <= bound - pos:
                    self.skip = value
                    pc += 2
                    continue
            elif op in (TEXT, RECORDS, ARRAY, ELEMENTS):
                # A length or a count comes first: its width in bytes, and its value.
                flags = code[pc + 1]
                if flags & COMPACT:
                    width = 1
                    value = data[pos] if pos < stop else 128
                    if value > 127:
                        width = varint_width(data, pos, stop)
                        if width > 0:
                            value = varint_at(data, pos)
                    if width > 0:
                        value -= 1
                        if value > 0x7FFFFFFE:
                            status = MALFORMED
                            break
                    elif width < 0:
                        status = MALFORMED
                        break
                    need = stop - pos + 1
                elif flags & WIDE:
                    width = 4 if pos + 4 <= stop else 0
                    need = 4
                    if width:
                        value = int32_in(data, pos)
                else:
                    width = 2 if pos + 2 <= stop else 0
                    need = 2
                    if width:
                        value = int16_in(data, pos)
                if width > 0:
                    if value < 0:
                        if value < -1 or not flags & NULLS:
                            status = MALFORMED
                            break
                        if flags & WANTED:
                            self._put(-1)
                        pos += width
                        pc = code[pc + 3] if op == ARRAY else pc + (3 if op == ELEMENTS else 2)
                        continue
                    have = bound - pos - width
                    if op == ARRAY:
                        # An element has at least 1 byte, so a count is never larger than the bytes
                        # left.
                        need = width + value * code[pc + 2]
                        if need <= have + width:
                            pos += width
                            if flags & WANTED:
                                self._put(value)
                            if value == 0:
                                pc = code[pc + 3]
                            else:
                                self.stack[self.depth] = value
                                self.depth += 1
                                pc += 4
                            continue
                    elif op == ELEMENTS:
                        need = width + value * code[pc + 2]
                        if need <= have + width:
                            pos += width
                            self.skip = value * code[pc + 2]
                            pc += 3
                            continue
                    else:
                        need = width + value
                        if value <= have:
                            pos += width
                            if not flags & WANTED:
                                self.skip = value
                            elif op == TEXT:
                                self._put(value)
                                self._put(self.arena_used)
                                self.copy = value
                            else:
                                self._put_records(value)
                            pc += 2
                            continue
            elif op == LOOP:
                self.stack[self.depth - 1] -= 1
                if self.stack[self.depth - 1] > 0:
                    pc = code[pc + 1]
                else:
                    self.depth -= 1
                    pc += 2
                continue
            elif op == TAGS:
                flags = code[pc + 1]
                width = 1
                value = data[pos] if pos < stop else 128
                if value > 127:
                    width = varint_width(data, pos, stop)
                    if width > 0:
                        value = varint_at(data, pos)
                need = stop - pos + 1
                if width < 0:
                    status = MALFORMED
                    break
                if width > 0:
                    if value > 0x7FFFFFFF:
                        status = MALFORMED
                        break
                    pos += width
                    if flags & WANTED:
                        self._put(0)
                    if value == 0:
                        pc += 3 + 2 * code[pc + 2]
                    else:
                        self.stack[self.depth] = value
                        self.stack[self.depth + 1] = -1
                        self.stack[self.depth + 2] = pc
                        self.stack[self.depth + 3] = self.used - 1
                        self.depth += TAG_CELLS
                        pc = NEXT_TAG_ADDRESS
                    continue
            elif op == NEXT_TAG:
                at = self.depth - TAG_CELLS
                if self.stack[at] == 0:
                    self.depth = at
                    pc = cython.cast(cython.int, self.stack[at + 2])
                    pc += 3 + 2 * code[pc + 2]
                    continue
                width = self._next_tag(data, pos, stop, at)
                need = stop - pos + 1
                if width < 0:
                    status = MALFORMED
                    break
                if width > 0:
                    # This cell holds the size until here, and the outer floor from here on.
                    value = self.stack[at + 4]
                    pos += width
                    need = value
                    if value <= bound - pos:
                        i = self._selected_tag(code, at)
                        if i > 0:
                            self.stack[at + 4] = self.floor
                            self.floor = frame_end - pos - value
                            self.inside += 1
                            bound = pos + value
                            stop = min(end, bound)
                            pc = code[i]
                        elif i == 0:
                            self.skip = value
                        else:
                            self._put(value)
                            self._put(self.arena_used)
                            self.copy = value
                        continue
            elif op == TAG_END:
                if pos != bound:
                    status = MALFORMED
                    break
                self.floor = self.stack[self.depth - 1]
                self.inside -= 1
                bound = frame_end - self.floor
                stop = min(end, bound)
                pc = NEXT_TAG_ADDRESS
                continue
            elif op == JUMP:
                pc = code[pc + 1]
                continue
            elif op == NULLABLE:
                need = 1
                if pos + 1 <= stop:
                    value = data[pos]
                    if value != 1 and value != 255:
                        status = MALFORMED
                        break
                    pos += 1
                    if code[pc + 1] & WANTED:
                        self._put(1 if value == 1 else -1)
                    pc = pc + 3 if value == 1 else code[pc + 2]
                    continue
            elif op == INT8:
                need = 1
                if pos + 1 <= stop:
                    value = data[pos]
                    self._put(value - 256 if value > 127 else value)
                    pos += 1
                    pc += 1
                    continue
            elif op == UINT8:
                need = 1
                if pos + 1 <= stop:
                    self._put(data[pos])
                    pos += 1
                    pc += 1
                    continue
            elif op == UUID:
                need = 16
                if pos + 16 <= stop:
                    self._put(int64_in(data, pos))
                    self._put(int64_in(data, pos + 8))
                    pos += 16
                    pc += 1
                    continue
            elif op == UINT16:
                need = 2
                if pos + 2 <= stop:
                    value = data[pos]
                    self._put(value * 256 + data[pos + 1])
                    pos += 2
                    pc += 1
                    continue
            elif op == UINT32:
                need = 4
                if pos + 4 <= stop:
                    self._put(uint32_in(data, pos))
                    pos += 4
                    pc += 1
                    continue
            else:
                status = DONE
                break
            # Bytes are lacking: in this piece, in the tagged field, or in the body.
            if need > bound - pos:
                status = MALFORMED if self.inside > 0 else TRUNCATED
            break
        self.pc = pc
        self.remaining_bytes = frame_end - pos
        self.status = status
        return pos

    def _next_tag(self, data: bytes | memoryview, pos: int, stop: int, at: int) -> int:
        """Read the tag and the size of a tagged field; return how many bytes both take.

        Returns 0 if more bytes are needed, -1 if they contradict the grammar. The size goes to the
        last cell of the section at stack index ``at``.
        """
        width = varint_width(data, pos, stop)
        if width <= 0:
            return width
        tag = varint_at(data, pos)
        if tag > 0x7FFFFFFF or tag <= self.stack[at + 1]:
            return -1
        more = varint_width(data, pos + width, stop)
        if more <= 0:
            return more
        size = varint_at(data, pos + width)
        if size > 0x7FFFFFFF:
            return -1
        self.stack[at] -= 1
        self.stack[at + 1] = tag
        self.stack[at + 4] = size
        return width + more

    def _selected_tag(self, code: Any, at: int) -> int:
        """Put the tag just read on the tape if it is selected; return where its address is.

        That is an index in ``code``. Returns 0 if the tag is not selected, and -1 if the definition
        does not know it and its bytes are kept.
        """
        pc = cython.cast(cython.int, self.stack[at + 2])
        tag = self.stack[at + 1]
        address_index = -1 if code[pc + 1] & KEEP_UNKNOWN else 0
        for i in range(code[pc + 2]):
            if code[pc + 3 + 2 * i] == tag:
                address_index = pc + 4 + 2 * i
        if address_index != 0:
            self.cells[self.stack[at + 3]] += 1
            self._put(tag)
        return address_index

    # -- records ----------------------------------------------------------------------------------

    def _put_records(self, length: int) -> int:
        """Begin a records field; its cells are filled as its headers come."""
        self.records_at = self.used
        self.records = length
        self._put(length)
        self._put(0)
        self._put(-1)
        self._put(0)
        self._put(0)
        self._put(NO_TIMESTAMP)
        self._put(NO_TIMESTAMP)
        self._put(0)
        self._put(-1)
        self._put(-1)
        self._put(-1)
        return 0

    def _entry(self, data: bytes | memoryview, pos: int, end: int, left: int) -> int:
        """Read the header of the next batch or message in a records field, and skip the rest of it.

        ``left`` is the number of bytes from here to the end of the body. Returns 0 if the header is
        longer than ``data[pos:end]``, else 1. Each batch or message takes at least 26 bytes, or
        ends the field.
        """
        remaining_bytes = self.records
        if remaining_bytes < MESSAGE_HEAD_BYTES:
            return self._end_records(TRUNCATED_RECORDS)
        need = min(BATCH_HEADER_BYTES, remaining_bytes)
        if end - pos < need:
            return 0
        magic = data[pos + MAGIC_AT]
        size = int32_in(data, pos + 8)
        if magic == 2:
            if remaining_bytes < BATCH_HEADER_BYTES:
                return self._end_records(TRUNCATED_RECORDS)
            least = MIN_BATCH_LENGTH
        elif magic < 2:
            least = MIN_MESSAGE_SIZE_1 if magic == 1 else MIN_MESSAGE_SIZE_0
        else:
            return self._end_records(MALFORMED_RECORDS)
        if size < least:
            return self._end_records(MALFORMED_RECORDS)
        if size + ENTRY_HEAD_BYTES > remaining_bytes:
            return self._end_records(TRUNCATED_RECORDS)
        if magic == 2:
            self._batch(data, pos, size)
        else:
            self._message(data, pos, magic)
        self.skip = size + ENTRY_HEAD_BYTES
        self.records = remaining_bytes - self.skip
        if self.noting:
            self.batches += 1
            if self.noted < MAX_NOTES:
                if 2 * self.noted + 2 > len(self.notes):
                    with cython.gil:
                        self.notes = doubled(self.notes)
                self.notes[2 * self.noted] = left
                self.notes[2 * self.noted + 1] = self.skip
                self.noted += 1
        return 1

    def _batch(self, data: bytes | memoryview, pos: int, size: int) -> int:
        """Note the header of a whole batch (KIP-98)."""
        at = self.records_at
        attributes = data[pos + 22]
        count = int32_in(data, pos + 57)
        if self.cells[at + 4] == 0:
            self.cells[at + 8] = int64_in(data, pos + 43)
            self.cells[at + 9] = int16_in(data, pos + 51)
            self.cells[at + 10] = int32_in(data, pos + 53)
        self._note_batch(
            int64_in(data, pos), attributes & CODEC_BITS, int64_in(data, pos + 27),
            int64_in(data, pos + 35),
        )  # fmt: skip
        if attributes & CONTROL_BIT:
            self.cells[at + 7] |= CONTROL
        elif count < 0 or (
            attributes & CODEC_BITS == 0 and count * MIN_RECORD_BYTES > size - MIN_BATCH_LENGTH
        ):
            # It is safe to continue: the sizes are sound, only the number of records is not.
            self.cells[at + 7] |= MALFORMED_RECORDS
        else:
            self.cells[at + 1] += count
        return 0

    def _message(self, data: bytes | memoryview, pos: int, magic: int) -> int:
        """Note the head of a whole message of magic 0 or 1 (KIP-32)."""
        at = self.records_at
        attributes = data[pos + 17]
        time = int64_in(data, pos + MESSAGE_HEAD_BYTES) if magic else NO_TIMESTAMP
        if attributes & CODEC_BITS and self.cells[at + 4] == 0:
            self.cells[at + 7] |= HIDDEN_FIRST
        self._note_batch(int64_in(data, pos), attributes & CODEC_BITS, time, time)
        if attributes & CODEC_BITS:
            self.cells[at + 7] |= HIDDEN_COUNT
        else:
            self.cells[at + 1] += 1
        return 0

    def _note_batch(self, offset: int, codec: int, first: int, last: int) -> int:
        """Note what batches and messages have in common: offset, codec, first and last time."""
        at = self.records_at
        if self.cells[at + 4] == 0:
            self.cells[at + 2] = offset
            self.cells[at + 5] = first
        self.cells[at + 4] += 1
        self.cells[at + 3] |= 1 << codec
        if last > self.cells[at + 6]:
            self.cells[at + 6] = last
        return 0

    def _end_records(self, flag: int) -> int:
        """Skip the rest of a records field, and set a flag that says why; return 1."""
        self.cells[self.records_at + 7] |= flag
        self.skip = self.records
        self.records = 0
        return 1

    # -- the tape ---------------------------------------------------------------------------------

    def _put(self, value: int) -> None:
        self.cells[self.used] = value
        self.used += 1

    def _copy_bytes(self, data: bytes | memoryview, pos: int, count: int) -> int:
        if count > self.arena_room - self.arena_used:
            with cython.gil:
                self._make_room(0, count)
        copy_bytes(self.texts, self.arena_used, data, pos, count)
        self.arena_used += count
        return 0

    def _make_room(self, cells: int, arena_bytes: int) -> None:
        """Continue the body on a new tape with room for more cells and bytes."""
        old, is_own = self.tape, self.tape is self.own_tape
        tape = Tape(
            max(2 * (self.used + cells), len(old.cells)),
            max(2 * (self.arena_used + arena_bytes), len(old.arena)),
        )
        tape.add(old.cells, self.begin_at, self.used)
        tape.add_bytes(old.arena, self.arena_begin, self.arena_used)
        tape.used = tape.arena_used = 0
        self._write_to(tape)
        if is_own:
            self.own_tape = tape


_OWN_CELLS, _OWN_BYTES = 64, 256


def doubled(cells: memoryview) -> memoryview:
    """Return a copy of cells with room for as many more."""
    larger = memoryview(array("q", [0]) * (2 * len(cells)))
    larger[: len(cells)] = cells
    return larger


def int16_of(first: int, second: int) -> int:
    """Return the int16 of two bytes, the highest first."""
    return (first - 256 if first > 127 else first) * 256 + second


def int32_of(first: int, second: int, third: int, fourth: int) -> int:
    """Return the int32 of four bytes, the highest first."""
    high = first - 256 if first > 127 else first
    return high * 0x1000000 + (second * 0x10000 + third * 0x100 + fourth)


def int16_at(data: memoryview, pos: int) -> int:
    """Read a big-endian int16; as :func:`int32_at`, it raises IndexError if it is not there."""
    return int16_of(data[pos], data[pos + 1])


def int32_at(data: memoryview, pos: int) -> int:
    """Read a big-endian int32."""
    return int32_of(data[pos], data[pos + 1], data[pos + 2], data[pos + 3])


def varint_width(data: bytes | memoryview, pos: int, stop: int) -> int:
    """Return how many bytes an unsigned varint takes: 0 if more are needed, -1 if it has over 5."""
    k = 0
    while k < 5:
        if pos + k >= stop:
            return 0
        if data[pos + k] < 128:
            return k + 1
        k += 1
    return -1


def varint_at(data: bytes | memoryview, pos: int) -> int:
    """Read a complete unsigned varint; it has at most 5 bytes, so it is less than 2^35."""
    value = data[pos]
    if value < 128:
        return value
    value -= 128
    scale = 128
    while True:
        pos += 1
        byte = data[pos]
        if byte < 128:
            return value + byte * scale
        value += (byte - 128) * scale
        scale *= 128
