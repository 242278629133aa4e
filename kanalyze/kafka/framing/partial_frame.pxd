# The C types of partial_frame.py.
cimport cython

from kanalyze.kafka.framing.frame cimport Frame
from kanalyze.kafka.framing.frame_pieces cimport SegmentSpan


@cython.final
cdef class PartialFrame:
    cdef public Frame frame
    cdef public long long remaining

    cdef extend(self, Frame frame, SegmentSpan spread)
    cpdef lose(self, long long length)
    @cython.locals(frame=Frame)
    cpdef Frame end(self, long long time_ns, long long packet)


@cython.final
cdef class SplitPrefix:
    cdef public Frame frame
    cdef public bytes _bytes

    cpdef begin(self, segments, long long index, long long stream_offset, long long used)
    cpdef int add(self, segments, long long index) except -2
    cpdef end(self, Frame frame, long long size)
    cpdef clear(self)
