# The C types of segment_groups.py.
cimport cython

cdef unsigned long long MIX_ONE, MIX_OTHER, LOW_64_BITS, SEED
cdef int MIN_TABLE


cdef class SegmentGroups:
    cdef readonly object order
    cdef readonly object start
    cdef readonly object middle
    cdef readonly long long count
    cdef const long long[::1] ipv6s
    cdef const unsigned long long[::1] source_highs
    cdef const unsigned long long[::1] source_lows
    cdef const long long[::1] source_ports
    cdef const unsigned long long[::1] destination_highs
    cdef const unsigned long long[::1] destination_lows
    cdef const long long[::1] destination_ports
    cdef int[::1] table
    cdef long long table_mask
    cdef int[::1] lanes
    cdef int[::1] firsts
    cdef long long[::1] orders
    cdef long long[::1] starts
    cdef long long[::1] middles

    cpdef long long first(self, long long group) except -1
    @cython.locals(row=cython.longlong)
    cpdef tuple pair(self, long long group)
    @cython.locals(
        row=cython.longlong, from_higher=cython.int, slot=cython.longlong, group=cython.longlong
    )
    cdef int _find_groups(self, long long rows) except -1
    cdef bint _is_from_higher(self, long long row) except -1
    @cython.locals(
        source=cython.ulonglong, destination=cython.ulonglong, both=cython.ulonglong
    )
    cdef long long _hash(self, long long row, bint from_higher) except -1
    @cython.locals(first=cython.longlong)
    cdef bint _is_of(self, long long row, bint from_higher, long long group) except -1
    @cython.locals(
        ends="long long[::1]",
        row=cython.longlong,
        total=cython.longlong,
        group=cython.longlong,
        sent=cython.longlong,
        lane=cython.longlong,
    )
    cdef int _sort(self, long long rows) except -1


@cython.locals(both=cython.ulonglong)
cdef unsigned long long end_hash(
    unsigned long long high, unsigned long long low, unsigned long long port
) noexcept
