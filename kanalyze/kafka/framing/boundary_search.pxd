# The C types of boundary_search.py.
cimport cython

from kanalyze.kafka.framing.frame cimport Frame


cdef class BoundarySearch:
    cdef object _locator
    cdef public _SearchBuffer _buffer
    cdef public long long _candidate_offset
    cdef public long long _searched_until
    cdef public bint is_on
    cdef public long long skipped_bytes

    @cython.locals(begin=cython.longlong)
    cpdef bint is_unconfirmed(self, Frame frame) except -1
    cpdef bint confirms(self, Frame frame) except -1
    cpdef long long clear(self) except -1
    @cython.locals(search=_SearchBuffer)
    cpdef list search(self, chunk)
    @cython.locals(search=_SearchBuffer)
    cpdef list search_buffered(self)
    cdef list _end(self, long long index)


cdef class _SearchBuffer:
    cdef public bytearray _bytes
    cdef public list _marks
    cdef public long long stream_offset
    cdef public long long _cut_bytes
    cdef public long long searched_bytes
    cdef public long long needed_bytes

    cpdef add(self, segments, Py_ssize_t index, long long stream_offset)
    cpdef long long clear(self) except -1
