# The C types of tcp_metrics.py.
cimport cython

from kanalyze.model.streams cimport NO_TIME
from kanalyze.model.tcp cimport RoundTrips
from kanalyze.net.tcp.half_stream cimport distance
from kanalyze.net.tcp.segment_iterator cimport (ACK, CONTROL, FIN, IS_COPY, IS_ZERO_WINDOW, RST,
    SYN, Segment)

cdef enum:
    MIN_CELLS = 16

# What Python imports too.
cpdef enum:
    MAX_TIMED_SEGMENTS = 4096

cdef long long SEQUENCE_MASK


cdef class TimedSegments:
    cdef public long long count


cdef class RoundTripTimer:
    cdef public RoundTrips sums
    cdef public TimedSegments all_timed
    cdef public bint has_sequence
    cdef public long long sequence, reference
    cdef public bint has_sent
    cdef public long long sent
    cdef public bint has_acknowledged
    cdef public long long acknowledged
    cdef readonly long long[::1] starts, ends, times
    cdef readonly Py_ssize_t first, last

    cpdef long long relative(self, long long sequence) noexcept
    @cython.locals(start=cython.longlong, end=cython.longlong)
    cpdef send(self, long long sequence, long long length, long long time_ns)
    @cython.locals(relative=cython.longlong, until=cython.Py_ssize_t, sent_ns=cython.longlong)
    cpdef acknowledge(self, long long sequence, long long time_ns)
    cpdef drop_all(self)
    cdef _await(self, long long start, long long end, long long time_ns)
    @cython.locals(count=cython.Py_ssize_t, room=cython.Py_ssize_t)
    cdef _make_room(self)
    cdef _drop(self, Py_ssize_t count)
    cdef _note_sent(self, long long sequence, long long end)
    @cython.locals(first=cython.Py_ssize_t, last=cython.Py_ssize_t, dropped=cython.Py_ssize_t,
        index=cython.Py_ssize_t)
    cdef _forget(self, long long start, long long end)


@cython.locals(new_cells="long long[::1]", index=cython.Py_ssize_t)
cdef long long[::1] moved(long long[::1] cells, Py_ssize_t first, Py_ssize_t last, Py_ssize_t room)


cdef class Meter:
    cdef public object measures
    cdef public tuple indices
    cdef public RoundTripTimer lower_timer, higher_timer
    cdef public object awaited, _expected
    cdef public bint _is_simultaneous

    cpdef drop_timed(self)
    @cython.locals(from_higher=cython.longlong, flags=cython.longlong, first=cython.longlong,
        length=cython.longlong)
    cpdef take(self, Segment segment, bint is_out_of_window, bint is_last)
    @cython.locals(mine=RoundTripTimer, other=RoundTripTimer)
    cpdef time(self, long long from_higher, long long flags, long long first, long long length,
        long long acknowledgment, long long time_ns)
    @cython.locals(flags=cython.longlong)
    cdef _take_control(self, Segment segment, index)
    cdef _take_syn(self, Segment segment, index)
    cdef _take_answer(self, Segment segment, index)
    @cython.locals(flags=cython.longlong)
    cdef _end_handshake(self, Segment segment)
    cdef _end_without_figures(self)
