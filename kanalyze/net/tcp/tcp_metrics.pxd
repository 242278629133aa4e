# The C types of tcp_metrics.py.
cimport cython

from kanalyze.net.tcp.delivery cimport Segment
from kanalyze.net.tcp.round_trips cimport RoundTripTimer

cdef enum:
    FIN = 1
    SYN = 2
    RST = 4
    ACK = 16
    CONTROL = 7
    IS_COPY = 1
    IS_ZERO_WINDOW = 2

cdef long long SEQUENCE_MASK


cdef class Meter:
    cdef public object measures
    cdef public tuple indices
    cdef public RoundTripTimer lower_timer
    cdef public RoundTripTimer higher_timer
    cdef public object awaited
    cdef public object _expected
    cdef public bint _is_simultaneous

    cpdef drop_timed(self)
    @cython.locals(
        from_higher=cython.longlong,
        flags=cython.longlong,
        first=cython.longlong,
        length=cython.longlong,
    )
    cpdef take(self, Segment segment, bint is_out_of_window, bint is_last)
    @cython.locals(mine=RoundTripTimer, other=RoundTripTimer)
    cpdef time(
        self,
        long long from_higher,
        long long flags,
        long long first,
        long long length,
        long long acknowledgment,
        long long time_ns,
    )
    @cython.locals(flags=cython.longlong)
    cdef _take_control(self, Segment segment, index)
    cdef _take_syn(self, Segment segment, index)
    cdef _take_answer(self, Segment segment, index)
    @cython.locals(flags=cython.longlong)
    cdef _end_handshake(self, Segment segment)
    cdef _end_without_figures(self)
