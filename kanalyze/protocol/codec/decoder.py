"""One body at once, where its bytes are at hand: a program, a machine and a tape reader together.

In: a program, and bodies, whole or behind a :class:`~kanalyze.protocol.wire.Source`. Out: values,
or the exceptions of :mod:`kanalyze.protocol.wire`. This module must not know what bodies mean.

Compiled by Cython, with the types in ``decoder.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.protocol.codec.machine import Machine, Programs
from kanalyze.protocol.codec.values import TapeReader
from kanalyze.protocol.wire import Malformed, MissingBytes, Source, Truncated

try:
    import cython
except ModuleNotFoundError:  # as in machine.py
    from kanalyze.compiled import cython

if not cython.compiled:
    RUNNING, DONE, TRUNCATED = range(3)

if TYPE_CHECKING:
    from kanalyze.protocol.codec.program import Program

__all__ = ["BodyDecoder"]


class BodyDecoder:
    """Decodes bodies of one message in one version; not from several threads at once."""

    def __init__(self, program: Program, programs: Programs) -> None:
        """Put a program into a table of programs, and run it from there."""
        self.address = programs.add(program.words, program.relocations)
        self.stack_cells = program.stack_cells
        self.shape = program.shape
        self.machine = Machine(programs)
        self.reader = TapeReader(self.machine)

    def __call__(
        self, view: bytes | memoryview, pos: int, base: int, source: Source | None
    ) -> tuple[Any, int]:
        """Decode a body: see :data:`kanalyze.protocol.compiler.Decoder`."""
        machine = self.machine
        limit = len(view)
        if source is None:
            machine.begin(self.address, self.stack_cells, limit - pos)
            machine.feed(view, pos, limit)
            end = base + limit - machine.left
        else:
            end = self._from_source(view, pos, base, source)
        if machine.status != DONE:
            if machine.status == TRUNCATED:
                raise Truncated("the bytes end within the body")
            raise Malformed("the bytes are no such message")
        return self.reader.value(self.shape), end

    def _from_source(self, view: bytes | memoryview, pos: int, base: int, source: Source) -> int:
        """Run over the bytes of a frame, window by window; return where the body ended in it."""
        machine = self.machine
        frame_bytes = source.length
        at = base + pos
        if at > frame_bytes:
            raise Truncated("the frame ends before the body")
        machine.begin(self.address, self.stack_cells, frame_bytes - at)
        machine.feed(view, pos, min(len(view), frame_bytes - base))
        while machine.status == RUNNING:
            if machine.skip > 0:
                machine.pass_skipped(machine.skip)
            at = frame_bytes - machine.left + machine.carried
            if at >= frame_bytes:
                machine.feed(b"", 0, 0)
                continue
            try:
                window = source.window(at)
            except MissingBytes:
                if not machine.miss_records():
                    raise
                continue
            machine.feed(window, 0, len(window))
        return frame_bytes - machine.left
