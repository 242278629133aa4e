# The C types of duplicates.py.
cimport cython

from kanalyze.model.segments cimport NO_TIME

cdef enum:
    IS_COPY = 1
    IDENTIFIED = 20000000
    UNIDENTIFIED = 1000000
    WITHIN = 2048
    MIN_TABLE = 16

cdef unsigned long long MIX_ONE, MIX_OTHER, LOW_64_BITS, SEED


cdef class SegmentIdentities:
    cdef const long long[::1] numbers
    cdef const long long[::1] times
    cdef const long long[::1] sequences
    cdef const long long[::1] acknowledgments
    cdef const long long[::1] flags
    cdef const long long[::1] lengths
    cdef const long long[::1] windows
    cdef const long long[::1] checksums
    cdef const long long[::1] identifications
    cdef const unsigned long long[::1] source_highs
    cdef const unsigned long long[::1] source_lows
    cdef const unsigned long long[::1] destination_highs
    cdef const unsigned long long[::1] destination_lows
    cdef const long long[::1] source_ports
    cdef const long long[::1] destination_ports

    @cython.locals(
        copies="unsigned char[::1]",
        rows=cython.Py_ssize_t,
        size=cython.longlong,
        table="int[::1]",
        row=cython.Py_ssize_t,
        slot=cython.longlong,
        earlier=cython.longlong,
    )
    cpdef mark(self, bytearray marks)
    @cython.locals(
        sequence=cython.longlong, number=cython.longlong, earlier=cython.longlong
    )
    cdef long long last_same(self, SegmentIdentities newer, long long row, long long first) except -2
    @cython.locals(
        allowed_ns=cython.longlong, apart_ns=cython.longlong, is_near=cython.bint
    )
    cdef bint is_near(self, SegmentIdentities newer, long long row, long long earlier) except -1
    cdef bint is_same(self, SegmentIdentities newer, long long row, long long earlier) except -1
    @cython.locals(
        mixed=cython.ulonglong,
        sequence=cython.ulonglong,
        checksum_and_id=cython.ulonglong,
        ports=cython.ulonglong,
    )
    cdef long long _hash(self, long long row) except -1


cdef class DuplicateLookup:
    cdef SegmentIdentities _now
    cdef SegmentIdentities _before

    @cython.locals(now=SegmentIdentities, before=SegmentIdentities, earlier=cython.longlong)
    cpdef bint is_copy(self, long long row) except -1


cdef unsigned long long mix(unsigned long long mixed, unsigned long long number) noexcept
