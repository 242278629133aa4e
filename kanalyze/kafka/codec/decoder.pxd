# The C types of decoder.py.
cimport cython

from kanalyze.kafka.codec.machine cimport DONE, Machine, RUNNING, TRUNCATED
from kanalyze.kafka.codec.values cimport Shape, Tape, Taped, TapeReader
from kanalyze.kafka.framing.frame cimport Frame
from kanalyze.kafka.framing.frame_pieces cimport SegmentSpan
from kanalyze.model.streams cimport Segments


cdef class BodyDecoder:
    cdef readonly int address
    cdef readonly int stack_cells
    cdef readonly Shape shape
    cdef readonly Machine machine
    cdef readonly long long end
    cdef TapeReader reader

    @cython.locals(machine=Machine, frame_bytes=cython.longlong, at=cython.longlong)
    cdef long long _from_source(self, view, long long pos, long long base, source) except -1

    @cython.locals(machine=Machine, limit=cython.longlong)
    cpdef long long read(self, view, long long pos) except -1
    cpdef of_frame(self, Frame frame, long long at)
    @cython.locals(machine=Machine)
    cpdef Taped take(self, Tape tape)
    @cython.locals(machine=Machine, segments=Segments, frame_bytes=cython.longlong)
    cdef run(self, Frame frame, long long at)
    cdef _failure(self)
    @cython.locals(end=cython.longlong, start=cython.longlong)
    cdef bint _feed_spread(self, SegmentSpan spread, long long at) except -1
    @cython.locals(machine=Machine, at=cython.longlong, part="const unsigned char[::1]")
    cdef _read_on(self, long long frame_bytes, Frame frame, source)
