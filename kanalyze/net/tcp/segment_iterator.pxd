# The C types of segment_iterator.py.
cimport cython

from kanalyze.model.streams cimport NO_TIME, Segments

cdef int MIN_TABLE, MAX_CHECKED

cdef enum:
    FIN = 1
    SYN = 2
    RST = 4
    ACK = 16
    CONTROL = 7

# Those that Python imports too.
cpdef enum:
    IS_COPY = 1
    IS_ZERO_WINDOW = 2
    IDENTIFIED_NS = 20000000
    UNIDENTIFIED_NS = 1000000
    WITHIN_PACKETS = 2048

cdef unsigned long long MIX_ONE, MIX_OTHER, LOW_64_BITS, SEED


cdef class Segment:
    cdef public long long sequence, acknowledgment, flags, start, length, captured, time_ns, packet
    cdef public long long rank, from_higher, marks


@cython.locals(segment=Segment)
cpdef Segment new_segment(long long sequence, long long acknowledgment, long long flags,
    long long start, long long length, long long captured, long long time_ns, long long packet,
    long long rank, long long from_higher, long long marks=*)


cdef class SegmentGroups:
    cdef readonly object order, start, middle
    cdef readonly long long count
    cdef const long long[::1] ipv6s
    cdef const unsigned long long[::1] source_highs, source_lows
    cdef const long long[::1] source_ports
    cdef const unsigned long long[::1] destination_highs, destination_lows
    cdef const long long[::1] destination_ports
    cdef int[::1] table
    cdef long long table_mask
    cdef int[::1] lanes, firsts
    cdef long long[::1] orders, starts, middles

    @cython.locals(row=cython.longlong)
    cpdef tuple pair(self, long long group)
    @cython.locals(slot=cython.longlong, group=cython.longlong)
    cdef int _find_groups(self, long long rows) except -1
    cdef bint _is_from_higher(self, long long row) except -1
    @cython.locals(source=cython.ulonglong, destination=cython.ulonglong, both=cython.ulonglong)
    cdef long long _hash(self, long long row, bint from_higher) except -1
    @cython.locals(first=cython.longlong)
    cdef bint _is_of(self, long long row, bint from_higher, long long group) except -1
    @cython.locals(ends="long long[::1]", total=cython.longlong, group=cython.longlong,
        sent=cython.longlong, lane=cython.longlong)
    cdef int _sort(self, long long rows) except -1


@cython.locals(both=cython.ulonglong)
cdef unsigned long long end_hash(unsigned long long high, unsigned long long low,
    unsigned long long port) noexcept


cdef class SegmentIdentities:
    cdef const long long[::1] numbers, times, sequences, acknowledgments, flags, lengths, windows
    cdef const long long[::1] checksums, identifications
    cdef const unsigned long long[::1] source_highs, source_lows, destination_highs
    cdef const unsigned long long[::1] destination_lows
    cdef const long long[::1] source_ports, destination_ports

    @cython.locals(copies="unsigned char[::1]", rows=cython.Py_ssize_t, size=cython.longlong,
        table="int[::1]", row=cython.Py_ssize_t, slot=cython.longlong, earlier=cython.longlong)
    cpdef mark(self, bytearray marks)
    @cython.locals(number=cython.longlong)
    cdef long long last_same(self, SegmentIdentities newer, long long row, long long first) except -2
    @cython.locals(number=cython.longlong)
    cdef long long last_in_lane(self, long long row, long long[::1] orders, long long begin,
        long long at) except -2
    @cython.locals(allowed_ns=cython.longlong, apart_ns=cython.longlong, is_near=cython.bint)
    cdef bint is_near(self, SegmentIdentities newer, long long row, long long earlier) except -1
    cdef bint is_same(self, SegmentIdentities newer, long long row, long long earlier) except -1
    @cython.locals(mixed=cython.ulonglong, sequence=cython.ulonglong,
        checksum_and_id=cython.ulonglong, ports=cython.ulonglong)
    cdef long long _hash(self, long long row) except -1


cdef class DuplicateLookup:
    cdef SegmentIdentities _now, _before

    cpdef bint is_copy(self, long long row, long long[::1] orders, long long begin,
        long long at) except -1


cdef unsigned long long mix(unsigned long long mixed, unsigned long long number) noexcept


cdef class SegmentIterator:
    cdef readonly object columns, duplicates
    cdef readonly SegmentGroups groups
    cdef readonly Segments shared
    cdef readonly bint at_end
    cdef readonly long long row, from_higher, rank, last_time_ns
    cdef readonly bytearray marks
    cdef DuplicateLookup _lookback
    cdef int _checked
    cdef long long _marked
    cdef const long long[::1] sequences, acknowledgments, flags, starts, lengths, captured, times
    cdef const long long[::1] numbers, windows
    cdef int[::1] ranks
    cdef long long _lower_begin, _lower, _lower_end, _lower_rank
    cdef long long _higher_begin, _higher, _higher_end, _higher_rank

    cpdef mark_duplicate(self)
    cpdef mark_all(self)
    @cython.locals(row=cython.longlong)
    cpdef bint is_lone_syn(self, long long group) except -1
    cpdef begin(self, long long group)
    @cython.locals(has_payload=cython.bint)
    cpdef advance(self)
    cpdef Segment segment(self)
    cdef long long _marks_of(self, long long row) except -1
    @cython.locals(has_lower=cython.bint, has_higher=cython.bint)
    cdef int _select(self) except -1
    @cython.locals(marks="unsigned char[::1]")
    cdef int _mark_zero_windows(self) except -1
    @cython.locals(count=cython.longlong, start="long long[::1]", length="long long[::1]",
        captured="long long[::1]", time_ns="long long[::1]", number="long long[::1]")
    cdef Segments _payloads(self)
