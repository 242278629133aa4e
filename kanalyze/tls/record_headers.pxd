# The C types of record_headers.py.
cimport cython

from kanalyze.model.streams cimport Segments

cdef int ALERT, APPLICATION_DATA, HEADER_BYTES


cdef class RecordHeaders:
    cdef public long long records
    cdef public long long bytes
    cdef public object _head
    cdef public long long _left
    cdef public long long _size
    cdef public long long _begin_ns
    cdef public long long _packet

    cpdef list feed(self, list items)
    @cython.locals(
        lengths="const long long[::1]",
        captureds="const long long[::1]",
        times="const long long[::1]",
        starts="const long long[::1]",
        packets="const long long[::1]",
        captured=cython.longlong,
        start=cython.longlong,
        index=cython.longlong,
    )
    cdef _feed_segments(self, Segments segments, long long first, long long last, list records)
    @cython.locals(at=cython.longlong)
    cdef _step(self, data, long long time_ns, list records)
    @cython.locals(kind=cython.int)
    cdef _end(self, long long time_ns, list records)
    cdef _miss(self, long long length, long long time_ns, list records)
