# The C types of delivery.py.
cimport cython

from kanalyze.model.segments cimport Segments

cdef enum:
    LONG_RANGE = 8


cdef class Segment:
    cdef public long long sequence
    cdef public long long acknowledgment
    cdef public long long flags
    cdef public long long start
    cdef public long long length
    cdef public long long captured
    cdef public long long time_ns
    cdef public long long packet
    cdef public long long rank
    cdef public long long from_higher
    cdef public long long marks


@cython.locals(segment=Segment)
cpdef Segment new_segment(
    long long sequence,
    long long acknowledgment,
    long long flags,
    long long start,
    long long length,
    long long captured,
    long long time_ns,
    long long packet,
    long long rank,
    long long from_higher,
    long long marks,
)


cdef class BufferedSegment:
    cdef public long long stream_offset
    cdef public long long length
    cdef public bytes data
    cdef public long long time_ns
    cdef public long long packet


cdef class StreamWriter:
    cdef readonly list items
    cdef Segments _shared
    cdef long long _offset
    cdef list _ranges
    cdef long long _first
    cdef long long _last

    cpdef whole(self, long long offset, long long rank)
    cpdef whole_segments(self, long long offset, long long first, long long last)
    cpdef trimmed(self, long long offset, Segment segment, long long skip)
    cpdef buffered(self, list pieces)
    cpdef gap(self, long long offset, long long length, BufferedSegment after)
    @cython.locals(ranges=list)
    cpdef flush(self)
    cdef Segments _pick(self, list ranks)
