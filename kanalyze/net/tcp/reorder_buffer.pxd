# The C types of reorder_buffer.py.
cimport cython

from kanalyze.model.segments cimport NO_TIME
from kanalyze.net.tcp.delivery cimport BufferedSegment, Segment
from kanalyze.net.tcp.stream_anomalies cimport StreamAnomalies


cdef class ReorderBuffer:
    cdef public long long _hole_ns
    cdef public long long _acknowledged_hole_ns
    cdef public long long _acknowledged_hole_segments
    cdef public long long _most_bytes
    cdef public long long _most_segments
    cdef public list segments
    cdef public long long payload_bytes
    cdef public long long hole_since_ns
    cdef public long long acknowledged
    cdef public long long acknowledged_since_ns
    cdef public long long acknowledged_segments

    cpdef bint exceeds_limits(self) except -1
    cpdef report_limit(self, long long stream_offset, StreamAnomalies anomalies)
    cpdef BufferedSegment last(self)
    @cython.locals(
        end=cython.longlong,
        at=cython.longlong,
        repeated=cython.longlong,
        index=cython.Py_ssize_t,
        before=BufferedSegment,
        earlier=BufferedSegment,
        piece=BufferedSegment,
        stop=cython.longlong,
        first=cython.longlong,
        last=cython.longlong,
        data=bytes,
    )
    cpdef long long insert(
        self,
        Segment segment,
        long long stream_offset,
        long long next_offset,
        source,
        StreamAnomalies anomalies,
    ) except -1
    @cython.locals(count=cython.Py_ssize_t, piece=BufferedSegment)
    cpdef list pop_contiguous(self, long long stream_offset, long long now_ns)
    @cython.locals(
        low=cython.Py_ssize_t, high=cython.Py_ssize_t, middle=cython.Py_ssize_t, piece=BufferedSegment
    )
    cdef Py_ssize_t _count_up_to(self, long long stream_offset) except -1
    cpdef acknowledge(self, long long stream_offset, long long now_ns)
    cpdef bint count_segment(self) except -1
    cpdef bint is_expired(self, long long now_ns) except -1
    @cython.locals(waited_ns=cython.longlong)
    cpdef bint is_overdue(self, long long now_ns) except -1


@cython.locals(earlier_bytes=bytes, repeated_bytes=bytes, start=cython.longlong, size=cython.Py_ssize_t)
cdef bint differs(
    BufferedSegment earlier,
    Segment segment,
    long long stream_offset,
    long long at,
    long long stop,
    source,
) except -1
