# The C types of stream_anomalies.py.
cimport cython

from kanalyze.net.tcp.delivery cimport BufferedSegment, Segment

cdef enum:
    IS_COPY = 1


cdef class _SnappedRange:
    cdef public long long stream_offset
    cdef public long long missing
    cdef public long long time_ns
    cdef public long long packet
    cdef public long long packets


cdef class StreamAnomalies:
    cdef public object connection
    cdef public long long index
    cdef public object stats
    cdef public bint _is_cut
    cdef public _SnappedRange _more_cut

    cpdef lost(self, long long stream_offset, long long length, BufferedSegment after)
    @cython.locals(missing=cython.longlong)
    cpdef snapped(
        self,
        long long stream_offset,
        long long length,
        long long captured,
        long long time_ns,
        long long packet,
    )
    @cython.locals(cut=_SnappedRange)
    cpdef end(self)
    cpdef inconsistent(self, long long stream_offset, long long length, Segment segment)
    cpdef limit(self, long long stream_offset, long long buffered_bytes, BufferedSegment after)
    @cython.locals(count=cython.longlong)
    cpdef long long before_start(self, long long begin, long long end, bint is_probe) except -1
    cpdef out_of_order(self)
