# The C types of headers.py.
cimport cython

from kanalyze.net.header_cursor cimport HeaderCursor
from kanalyze.net.layers cimport find_tcp
from kanalyze.net.shard cimport shard_of

cdef enum:
    TCP_BYTES = 20


@cython.final
cdef class SegmentColumnsBuilder:
    cdef dict _arrays
    cdef long long _used
    cdef long long _segments
    cdef long long[::1] _number
    cdef long long[::1] _time_ns
    cdef long long[::1] _is_ipv6
    cdef unsigned long long[::1] _source_high
    cdef unsigned long long[::1] _source_low
    cdef unsigned long long[::1] _destination_high
    cdef unsigned long long[::1] _destination_low
    cdef long long[::1] _source_port
    cdef long long[::1] _destination_port
    cdef long long[::1] _sequence
    cdef long long[::1] _acknowledgment
    cdef long long[::1] _flags
    cdef long long[::1] _window
    cdef long long[::1] _checksum
    cdef long long[::1] _identification
    cdef long long[::1] _payload_start
    cdef long long[::1] _payload_bytes
    cdef long long[::1] _captured_bytes

    @cython.locals(
        numbers="const long long[::1]",
        times="const long long[::1]",
        row=cython.Py_ssize_t,
        link=cython.longlong,
    )
    cpdef read_all(self, HeaderCursor cursor, reassemble, long long shard_index, long long shard_count)
    @cython.locals(
        at=cython.longlong,
        header_bytes=cython.longlong,
        payload_start=cython.longlong,
        payload_bytes=cython.longlong,
        captured_bytes=cython.longlong,
        source_port=cython.longlong,
        destination_port=cython.longlong,
        row=cython.longlong,
    )
    cdef bint _take(
        self, HeaderCursor cursor, long long shard_index, long long shard_count
    ) except -1


cdef bint drop_cut(HeaderCursor cursor) except -1
cdef bint drop_bad(HeaderCursor cursor) except -1
cdef count_tunnels(HeaderCursor cursor)
