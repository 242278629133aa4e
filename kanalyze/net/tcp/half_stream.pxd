# The C types of half_stream.py.
cimport cython

from kanalyze.model.segments cimport NO_TIME
from kanalyze.net.tcp.delivery cimport BufferedSegment, Segment, StreamWriter
from kanalyze.net.tcp.path_timer cimport PathTimer
from kanalyze.net.tcp.reorder_buffer cimport ReorderBuffer
from kanalyze.net.tcp.sequence_space cimport SequenceSpace, distance
from kanalyze.net.tcp.stream_anomalies cimport StreamAnomalies

cdef enum:
    CONTROL = 7
    PAST_BYTES = 67108864
    IS_COPY = 1
    MIN_HOLE_NS = 3000000

cdef long long SEQUENCE_MASK


cdef class HalfStream(SequenceSpace):
    cdef public StreamAnomalies anomalies
    cdef public ReorderBuffer buffer
    cdef public PathTimer timer
    cdef public bint fin_acknowledged
    cdef public long long out_of_window
    cdef public bint has_last_ack
    cdef public long long last_ack
    cdef public long long last_ack_time_ns
    cdef public long long last_ack_packet

    cpdef bint is_in_order(self) except -1
    @cython.locals(last=BufferedSegment)
    cpdef long long furthest(self) except? -1
    @cython.locals(
        end=cython.longlong,
        buffer=ReorderBuffer,
        is_probe=cython.bint,
        is_behind=cython.bint,
        repeated=cython.longlong,
        hole_since_ns=cython.longlong,
    )
    cpdef add(self, Segment segment, long long stream_offset, StreamWriter out)
    cdef _note_again(
        self, Segment segment, long long stream_offset, bint is_repeated, long long hole_since_ns
    )
    cpdef bint is_probe(self, Segment segment, long long stream_offset) except -1
    @cython.locals(
        repeated=cython.longlong,
        last=cython.longlong,
        skip=cython.longlong,
        length=cython.longlong,
        captured=cython.longlong,
    )
    cdef long long _add_out_of_order(
        self,
        Segment segment,
        long long stream_offset,
        long long end,
        StreamWriter out,
        bint is_probe,
    ) except -1
    cpdef finish_at(self, long long stream_offset)
    @cython.locals(newly=cython.longlong)
    cpdef note_ack(
        self, long long acknowledgment, bint has_payload, long long time_ns, long long packet
    )
    @cython.locals(stream_offset=cython.longlong)
    cpdef acknowledge(self, long long sequence, long long time_ns)
    cpdef age(self, long long now_ns, StreamWriter out)
    cpdef count_segment(self, long long now_ns, StreamWriter out)
    @cython.locals(acknowledged=cython.longlong)
    cdef _give_up_acknowledged(self, long long now_ns, StreamWriter out)
    @cython.locals(after=BufferedSegment)
    cpdef give_up(self, long long now_ns, StreamWriter out)
    cpdef give_up_all(self, StreamWriter out)
    @cython.locals(end=cython.longlong, length=cython.longlong, after=BufferedSegment)
    cpdef lose_tail(self, StreamWriter out)
    cdef _lose(self, long long length, BufferedSegment after, StreamWriter out)
    @cython.locals(piece=BufferedSegment, pieces=list)
    cdef _drain(self, long long now_ns, StreamWriter out)
