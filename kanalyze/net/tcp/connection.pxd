# The C types of connection.py.
cimport cython

from kanalyze.model.streams cimport Segments, StreamUpdate
from kanalyze.model.tcp cimport TcpConnection
from kanalyze.net.tcp.half_stream cimport HalfStream, StreamWriter, distance
from kanalyze.net.tcp.segment_iterator cimport (ACK, CONTROL, FIN, IS_COPY, IS_ZERO_WINDOW, RST,
    SYN, Segment, SegmentIterator)
from kanalyze.net.tcp.tcp_metrics cimport Meter

cdef long long SEQUENCE_MASK


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
    @cython.locals(for_lower=StreamWriter, items=tuple)
    cpdef tuple writers(self, Segments shared)
    @cython.locals(for_lower=StreamWriter, for_higher=StreamWriter)
    cpdef end_writing(self)
    @cython.locals(lower=HalfStream, higher=HalfStream, for_lower=StreamWriter,
        for_higher=StreamWriter)
    cpdef StreamUpdate close(self, Segments shared, end)
    @cython.locals(lower=HalfStream, higher=HalfStream, meter=Meter, mine=HalfStream,
        other=HalfStream, writer=StreamWriter, for_lower=StreamWriter, for_higher=StreamWriter,
        last_time_ns=cython.longlong, lower_packets=cython.longlong, higher_packets=cython.longlong,
        lower_bytes=cython.longlong, higher_bytes=cython.longlong, row=cython.longlong,
        flags=cython.longlong, length=cython.longlong, from_higher=cython.longlong)
    cdef _pass_in_order(self, SegmentIterator iterator)
    @cython.locals(flags=cython.longlong, mine=HalfStream, other=HalfStream, writer=StreamWriter,
        for_lower=StreamWriter, for_higher=StreamWriter)
    cpdef bint receive(self, Segment segment, Segments shared) except -1
    @cython.locals(flags=cython.longlong, is_out_of_window=cython.bint, writer=StreamWriter)
    cdef bint _receive_out_of_order(self, Segment segment, HalfStream mine, HalfStream other,
        StreamWriter for_lower, StreamWriter for_higher) except -1
    @cython.locals(first=cython.longlong, stream_offset=cython.longlong, end=cython.longlong)
    cdef bint _take_bytes(self, Segment segment, HalfStream mine, StreamWriter out) except -1
    @cython.locals(tcp=TcpConnection, index=cython.longlong, is_empty_probe=cython.bint,
        is_last=cython.bint)
    cdef _count(self, Segment segment, HalfStream mine, bint is_out_of_window)


cdef count_in_order(TcpConnection tcp, long long index, long long packets, long long payload_bytes)
@cython.locals(row=cython.longlong)
cdef bint is_next(SegmentIterator iterator, HalfStream mine) except -1
@cython.locals(row=cython.longlong)
cdef bint is_usual(SegmentIterator iterator, HalfStream mine, Meter meter) except -1
@cython.locals(row=cython.longlong)
cdef bint may_repeat(SegmentIterator iterator, HalfStream mine) except -1
@cython.locals(is_answer=cython.bint, is_crossing=cython.bint)
cdef bint is_later_syn(Segment segment, HalfStream mine, HalfStream other) except -1
@cython.locals(is_answer=cython.bint)
cdef note_syn(TcpConnection tcp, Segment segment, HalfStream mine, HalfStream other)
cdef bint is_untouched(HalfStream half) except -1


cdef class HalfOpenConnection:
    cdef public tuple pair
    cdef public long long number, active_tick, serial, sequence, acknowledgment, flags, time_ns
    cdef public long long packet, from_higher, marks
