# The C types of connection.py.
cimport cython

from kanalyze.model.streams cimport NO_TIME, Segments, StreamUpdate
from kanalyze.model.tcp cimport PACKETS, PAYLOAD_BYTES, RoundTrips, TcpConnection
from kanalyze.net.tcp.half_stream cimport HalfStream, StreamWriter, distance
from kanalyze.net.tcp.segment_iterator cimport (ACK, CONTROL, FIN, IS_COPY, IS_ZERO_WINDOW, RST,
    SYN, Segment, SegmentIterator)

cdef int MIN_CELLS, NOTHING_SEEN

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
    @cython.locals(until=cython.Py_ssize_t, sent_ns=cython.longlong)
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
    cpdef take(self, Segment segment, bint is_out_of_window, bint is_last)
    cpdef time(self, long long from_higher, long long flags, long long first, long long length,
        long long acknowledgment, long long time_ns)
    cdef _take_control(self, Segment segment, index)
    cdef _take_syn(self, Segment segment, index)
    cdef _take_answer(self, Segment segment, index)
    cdef _end_handshake(self, Segment segment)
    cdef _end_without_figures(self)


cdef class OpenConnection:
    cdef public tuple pair
    cdef public TcpConnection tcp
    cdef public HalfStream lower, higher
    cdef public Meter meter
    cdef public long long active_tick
    cdef public StreamUpdate update
    cdef public tuple _writers
    cdef public object _limits, _stats

    cpdef bint is_in_order(self) except -1
    cpdef bint is_over(self) except -1
    cpdef int feed(self, SegmentIterator iterator) except -1
    cpdef tuple writers(self, Segments shared)
    @cython.locals(for_lower=StreamWriter, for_higher=StreamWriter)
    cpdef end_writing(self)
    @cython.locals(for_lower=StreamWriter, for_higher=StreamWriter)
    cpdef StreamUpdate close(self, Segments shared, end)
    @cython.locals(writer=StreamWriter, for_lower=StreamWriter, for_higher=StreamWriter,
        lower_packets=cython.longlong, higher_packets=cython.longlong, lower_bytes=cython.longlong,
        higher_bytes=cython.longlong, length=cython.longlong)
    cdef _pass_in_order(self, SegmentIterator iterator)
    @cython.locals(writer=StreamWriter, for_lower=StreamWriter, for_higher=StreamWriter)
    cpdef bint receive(self, Segment segment, Segments shared) except -1
    cdef bint _receive_out_of_order(self, Segment segment, HalfStream mine, HalfStream other,
        StreamWriter for_lower, StreamWriter for_higher) except -1
    @cython.locals(stream_offset=cython.longlong, end=cython.longlong)
    cdef bint _take_bytes(self, Segment segment, HalfStream mine, StreamWriter out) except -1
    @cython.locals(is_last=cython.bint)
    cdef _count(self, Segment segment, HalfStream mine, bint is_out_of_window)


cdef bint is_next(SegmentIterator iterator, HalfStream mine) except -1
cdef bint is_usual(SegmentIterator iterator, HalfStream mine, Meter meter) except -1
cdef bint may_repeat(SegmentIterator iterator, HalfStream mine) except -1
cdef bint is_later_syn(Segment segment, HalfStream mine, HalfStream other) except -1
cdef note_syn(TcpConnection tcp, Segment segment, HalfStream mine, HalfStream other)
cdef bint is_untouched(HalfStream half) except -1


cdef class ClosedConnection:
    cdef public long long number, closed_ns, late
    cdef public long long lower_first, lower_end, higher_first, higher_end


cdef class HalfOpenConnection:
    cdef public tuple pair
    cdef public long long number, active_tick, serial, sequence, acknowledgment, flags, time_ns
    cdef public long long packet, from_higher, marks
