# The C types of half_open.py.
cimport cython

from kanalyze.net.tcp.delivery cimport Segment


cdef class HalfOpenConnection:
    cdef public tuple pair
    cdef public long long number
    cdef public long long active_tick
    cdef public long long serial
    cdef public long long sequence
    cdef public long long acknowledgment
    cdef public long long flags
    cdef public long long time_ns
    cdef public long long packet
    cdef public long long from_higher
    cdef public long long marks
