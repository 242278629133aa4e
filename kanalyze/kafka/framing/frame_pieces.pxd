# The C types of frame_pieces.py.
cimport cython

from kanalyze.model.streams cimport Segments


cdef class SegmentSpan:
    cdef readonly Segments segments
    cdef readonly long long length
    cdef readonly long long buffered_bytes
    cdef long long _first
    cdef long long _last
    cdef long long _skip
    cdef long long _index
    cdef long long _at

    cdef _begin(self, Segments segments, long long first, long long skip, long long length)
    @cython.locals(
        segments=Segments,
        length=cython.longlong,
        at=cython.longlong,
        index=cython.longlong,
        buffered=cython.longlong,
        begin=cython.longlong,
        end=cython.longlong,
    )
    cdef _measure(self)
    @cython.locals(index=cython.longlong, at=cython.longlong, captured=cython.longlong)
    cdef long long _reach(self) except -1
    @cython.locals(lengths="const long long[::1]")
    cpdef long long contiguous_end(self, long long at) except? -1
    cpdef long long buffer_index(self, long long at) except? -1
    @cython.locals(have=cython.longlong, end=cython.longlong, start=cython.longlong)
    cpdef view(self, long long at, long long least)


@cython.locals(spread=SegmentSpan)
cdef SegmentSpan spread_of(Segments segments, long long first, long long skip, long long length)


cdef class FramePieces:
    cdef public list _at
    cdef public list _pieces
    cdef public long long _owned

    cpdef add(self, long long at, piece)
    cpdef detach(self)
    @cython.locals(
        index=cython.Py_ssize_t,
        begin=cython.longlong,
        end=cython.longlong,
        start=cython.longlong,
        spread=SegmentSpan,
    )
    cdef const unsigned char[::1] contiguous(self, long long at)
    @cython.locals(index=cython.Py_ssize_t, have=cython.longlong)
    cpdef join(self, long long at, long long least)
    cdef Py_ssize_t _index_of(self, long long at) except -1
