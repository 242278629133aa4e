# The C types of decoder.py.
cimport cython

from kanalyze.protocol.codec.machine cimport DONE, Machine, RUNNING, TRUNCATED
from kanalyze.protocol.codec.values cimport Shape, TapeReader


cdef class BodyDecoder:
    cdef readonly int address
    cdef readonly int stack_cells
    cdef readonly Shape shape
    cdef readonly Machine machine
    cdef TapeReader reader

    @cython.locals(machine=Machine, frame_bytes=cython.longlong, at=cython.longlong)
    cdef long long _from_source(self, view, long long pos, long long base, source) except -1
