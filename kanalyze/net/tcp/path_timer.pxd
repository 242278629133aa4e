# The C types of path_timer.py.
cimport cython

from kanalyze.model.network_path cimport RoundTripHistory
from kanalyze.model.segments cimport NO_TIME
from kanalyze.net.tcp.sequence_space cimport distance

cdef enum:
    MIN_DELAY_NS = 35000000
    UNDELAYED_BYTES = 17920
    MIN_SYN_TIMEOUT_NS = 200000000

cdef long long SEQUENCE_MASK


cdef class PathTimer:
    cdef public RoundTripHistory history
    cdef public bint is_timed
    cdef public bint has_syn
    cdef public bint is_syn
    cdef public long long end
    cdef public long long sent_ns

    cpdef begin(self, long long end, long long time_ns)
    cpdef begin_syn(self, long long end, long long time_ns)
    cpdef cancel(self)
    @cython.locals(elapsed_ns=cython.longlong, may_be_delayed=cython.bint, is_prompt=cython.bint)
    cpdef acknowledge(
        self,
        long long sequence,
        long long newly,
        bint has_payload,
        long long time_ns,
        long long packet,
    )
