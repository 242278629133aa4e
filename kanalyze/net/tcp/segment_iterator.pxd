# The C types of segment_iterator.py.
cimport cython

from kanalyze.net.tcp.duplicates cimport IS_COPY, DuplicateLookup
from kanalyze.net.tcp.segment_groups cimport SegmentGroups
from kanalyze.net.tcp.delivery cimport new_segment, Segment
from kanalyze.model.segments cimport Segments

cdef enum:
    FIN = 1
    SYN = 2
    RST = 4
    ACK = 16
    IS_ZERO_WINDOW = 2
    MAX_CHECKED = 1024


cdef class SegmentIterator:
    cdef readonly object columns
    cdef readonly object duplicates
    cdef readonly SegmentGroups groups
    cdef readonly Segments shared
    cdef readonly bint at_end
    cdef readonly long long row
    cdef readonly long long from_higher
    cdef readonly long long rank
    cdef readonly long long last_time_ns
    cdef readonly bytearray marks
    cdef DuplicateLookup _lookback
    cdef int _checked
    cdef long long _marked
    cdef const long long[::1] sequences
    cdef const long long[::1] acknowledgments
    cdef const long long[::1] flags
    cdef const long long[::1] starts
    cdef const long long[::1] lengths
    cdef const long long[::1] captured
    cdef const long long[::1] times
    cdef const long long[::1] numbers
    cdef const long long[::1] windows
    cdef int[::1] ranks
    cdef long long _lower
    cdef long long _lower_end
    cdef long long _lower_rank
    cdef long long _higher
    cdef long long _higher_end
    cdef long long _higher_rank

    cpdef mark_duplicate(self)
    cpdef mark_all(self)
    @cython.locals(row=cython.longlong)
    cpdef bint is_lone_syn(self, long long group) except -1
    @cython.locals(groups=SegmentGroups)
    cpdef begin(self, long long group)
    @cython.locals(has_payload=cython.bint)
    cpdef advance(self)
    @cython.locals(row=cython.longlong)
    cpdef Segment segment(self)
    @cython.locals(is_data=cython.bint)
    cdef long long _marks_of(self, long long row) except -1
    @cython.locals(
        orders="long long[::1]", has_lower=cython.bint, has_higher=cython.bint
    )
    cdef int _select(self) except -1
    @cython.locals(
        windows="const long long[::1]",
        marks="unsigned char[::1]",
        row=cython.Py_ssize_t,
        is_data=cython.bint,
    )
    cdef int _mark_zero_windows(self) except -1
    @cython.locals(
        orders="long long[::1]",
        rows=cython.Py_ssize_t,
        count=cython.longlong,
        index=cython.Py_ssize_t,
        row=cython.longlong,
        start="long long[::1]",
        length="long long[::1]",
        captured="long long[::1]",
        time_ns="long long[::1]",
        number="long long[::1]",
    )
    cdef Segments _payloads(self)
