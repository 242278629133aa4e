"""Decodes bodies, one at a time, with a program, a machine and a tape reader.

In: a program, and bodies: bytes, in a :class:`~kanalyze.kafka.framing.frame.Frame`, or behind a
:class:`~kanalyze.kafka.wire.Source`. Out: values, or the exceptions of :mod:`kanalyze.kafka.wire`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.codec.machine import Machine, Programs
from kanalyze.kafka.codec.values import Tape, Taped, TapeReader
from kanalyze.kafka.wire import Malformed, MissingBytes, Source, Truncated, WireError

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    RUNNING, DONE, TRUNCATED = range(3)

if TYPE_CHECKING:
    from kanalyze.kafka.codec.program import Program
    from kanalyze.kafka.codec.values import TapeCursor
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.framing.frame_pieces import SegmentSpan

__all__ = ["BodyDecoder"]

_NO_BYTES = memoryview(b"")
_TAPE_CELLS, _TAPE_BYTES = 1 << 14, 1 << 14
"""Size of a tape that many bodies share: 128 KiB of cells, and 16 KiB of texts."""


class BodyDecoder:
    """Decodes bodies of one message in one version; not from several threads at once."""

    def __init__(
        self, program: Program, programs: Programs, shared: TapeCursor | None = None
    ) -> None:
        """Add a program to a table of programs.

        Repeated texts are the same objects as those of the cursor ``shared``, if there is one.
        """
        self.address = programs.add(program.words, program.relocations)
        self.stack_cells = program.stack_cells
        self.shape = program.shape
        self.machine = Machine(programs)
        self.reader = TapeReader(self.machine, shared)
        self.end = 0

    def __call__(
        self, view: bytes | memoryview, pos: int, base: int, source: Source | None
    ) -> tuple[Any, int]:
        """Decode a body: see :data:`kanalyze.kafka.codec.compiler.Decoder`."""
        if source is None:
            end = base + self.read(view, pos)
        else:
            end = self._from_source(view, pos, base, source)
            if self.machine.status != DONE:
                raise self._failure()
        return self.reader.value(self.shape), end

    def read(self, view: bytes | memoryview, pos: int) -> int:
        """Decode a complete body; the values stay on the machine's tape.

        Returns where it ended, and raises, as ``__call__`` does.
        """
        machine = self.machine
        limit = len(view)
        machine.begin(self.address, self.stack_cells, limit - pos)
        machine.feed(view, pos, limit)
        if machine.status != DONE:
            raise self._failure()
        return limit - machine.remaining_bytes

    def of_frame(self, frame: Frame, at: int) -> Any:
        """Decode the body at offset ``at`` of a frame; return its values.

        Sets ``end`` to the frame offset after the body. Raises as ``__call__`` does.
        """
        error = self.run(frame, at)
        if error is not None:
            raise error
        return self.reader.value(self.shape)

    def take(self, tape: Tape | None) -> Taped:
        """Copy the last decoded values to the tape if it has room, else to a new one."""
        machine = self.machine
        if tape is None or not tape.has_room(machine.used, machine.arena_used):
            cells = max(machine.used, _TAPE_CELLS)
            tape = Tape(cells, max(machine.arena_used, _TAPE_BYTES))
        return self.reader.take(self.shape, tape)

    def taped_from_state(self, state: object) -> Taped:
        """Return decoded values from their state; raises ValueError for any other value."""
        return Taped.from_state(state, self.reader, self.shape)

    def run(self, frame: Frame, at: int) -> WireError | None:
        """Decode as :meth:`of_frame`; the values stay on the machine's tape.

        Returns the error, or None if the body was read. It is not raised: some clients write every
        body wrong, and raising takes longer than reading.
        """
        machine = self.machine
        frame_bytes = frame.length
        if at > frame_bytes:
            return Truncated("the frame ends before the body")
        machine.begin(self.address, self.stack_cells, frame_bytes - at)
        segments = frame.segments
        if segments is not None and at <= frame.contiguous_bytes:
            machine.feed(segments.data, frame.begin + at, frame.begin + frame.contiguous_bytes)
        if machine.status == RUNNING:
            try:
                self._read_on(frame_bytes, frame, frame)
            except MissingBytes as error:
                return error
        self.end = frame_bytes - machine.remaining_bytes
        return None if machine.status == DONE else self._failure()

    def _failure(self) -> WireError:
        """Return the error that says why the machine did not reach the end of a body."""
        if self.machine.status == TRUNCATED:
            return Truncated("the bytes end within the body")
        return Malformed("the bytes do not fit the message's definition")

    def _from_source(self, view: bytes | memoryview, pos: int, base: int, source: Source) -> int:
        """Run over the bytes of a frame, window by window; return where the body ended in it."""
        machine = self.machine
        frame_bytes = source.length
        at = base + pos
        if at > frame_bytes:
            raise Truncated("the frame ends before the body")
        machine.begin(self.address, self.stack_cells, frame_bytes - at)
        machine.feed(view, pos, min(len(view), frame_bytes - base))
        self._read_on(frame_bytes, None, source)
        return frame_bytes - machine.remaining_bytes

    def _read_on(self, frame_bytes: int, frame: Frame | None, source: Source) -> None:
        """Run over the bytes of a source: window by window, or, of a frame, segment by segment."""
        machine = self.machine
        while machine.status == RUNNING:
            if machine.skip > 0:
                machine.pass_skipped(machine.skip)
            at = frame_bytes - machine.remaining_bytes + machine.carried
            if at >= frame_bytes:
                machine.feed(_NO_BYTES, 0, 0)
                continue
            if frame is not None and frame.spread is not None:
                if not self._feed_spread(frame.spread, at) and not machine.skip_missing_records():
                    raise MissingBytes(f"byte {at} of the frame is not there")
                continue
            try:
                # A conditional expression would, compiled, make an object for each part.
                if frame is None:  # noqa: SIM108
                    part = source.window(at)
                else:
                    part = frame.contiguous(at)
            except MissingBytes:
                if not machine.skip_missing_records():
                    raise
                continue
            machine.feed(part, 0, len(part))

    def _feed_spread(self, spread: SegmentSpan, at: int) -> bool:
        """Run over the contiguous bytes of a spread from ``at`` on; return false if there are none.

        No view of them is made first: that would take 50 ns.
        """
        end = spread.contiguous_end(at)
        if end <= at or at >= spread.length:
            return False
        start = spread.buffer_index(at)
        self.machine.feed(spread.segments.data, start, start + end - at)
        return True
