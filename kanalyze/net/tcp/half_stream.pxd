# The C types of half_stream.py.
cimport cython

from kanalyze.model.streams cimport chunk_of, NO_TIME, Segments
from kanalyze.model.tcp cimport (DUPLICATE_BYTES, KEEP_ALIVE_BYTES, LOST_BYTES,
    OUT_OF_ORDER_PACKETS, RETRANSMITTED_BYTES, RoundTripHistory, SNAPPED_BYTES, TcpConnection)
from kanalyze.net.tcp.segment_iterator cimport CONTROL, IS_COPY, Segment

cdef int LONG_RANGE, FUTURE_BYTES, MIN_HOLE_NS, MIN_DELAY_NS, UNDELAYED_BYTES, MIN_SYN_TIMEOUT_NS


# What Python imports too.
cpdef enum:
    PAST_WINDOW_BYTES = 67108864

cdef long long SEQUENCE_MASK, HALF


cpdef long long distance(long long later, long long earlier) noexcept


cdef class SequenceSpace:
    cdef public TcpConnection connection
    cdef public long long index
    cdef public bint started, has_syn
    cdef public long long first_sequence, next_sequence, stream_offset
    cdef public object fin_offset

    cdef _begin(self, TcpConnection connection, long long index)
    cpdef start(self, long long sequence, bint has_syn)
    cpdef note_syn(self, long long first_sequence)
    cpdef long long offset_of(self, long long sequence) noexcept
    cpdef bint is_out_of_window(self, long long begin, long long end) except -1
    cpdef advance(self, long long length)


cdef class BufferedSegment:
    cdef public long long stream_offset, length
    cdef public bytes data
    cdef public long long time_ns, packet


cdef class StreamWriter:
    cdef readonly list items
    cdef Segments _shared
    cdef long long _offset
    cdef list _ranges
    cdef long long _first, _last

    cpdef whole(self, long long offset, long long rank)
    cpdef trimmed(self, long long offset, Segment segment, long long skip)
    cpdef buffered(self, list pieces)
    cpdef gap(self, long long offset, long long length, BufferedSegment after)
    cpdef flush(self)
    cdef Segments _pick(self, list ranks)


cdef class _SnappedRange:
    cdef public long long stream_offset, missing, time_ns, packet, packets


cdef class StreamAnomalies(SequenceSpace):
    cdef public object stats
    cdef public bint _is_cut
    cdef public _SnappedRange _more_cut

    cdef _report_to(self, stats)
    cpdef lost(self, long long stream_offset, long long length, BufferedSegment after)
    @cython.locals(missing=cython.longlong)
    cpdef snapped(self, long long stream_offset, long long length, long long captured,
        long long time_ns, long long packet)
    cpdef report_cuts(self)
    @cython.locals(count=cython.longlong)
    cpdef long long before_start(self, long long begin, long long end, bint is_probe) except -1
    cpdef out_of_order(self)


cdef class ReorderBuffer:
    cdef public long long _hole_ns, _acknowledged_hole_ns, _acknowledged_hole_segments, _most_bytes
    cdef public long long _most_segments
    cdef public list segments
    cdef public long long payload_bytes, hole_since_ns, acknowledged, acknowledged_since_ns
    cdef public long long acknowledged_segments

    cpdef bint exceeds_limits(self) except -1
    cpdef BufferedSegment last(self)
    @cython.locals(at=cython.longlong, repeated=cython.longlong, index=cython.Py_ssize_t,
        before=BufferedSegment, earlier=BufferedSegment, stop=cython.longlong,
        first=cython.longlong, last=cython.longlong)
    cpdef long long insert(self, Segment segment, long long stream_offset, long long next_offset,
        source, StreamAnomalies stream) except -1
    @cython.locals(count=cython.Py_ssize_t, piece=BufferedSegment)
    cpdef list pop_contiguous(self, long long stream_offset, long long now_ns)
    @cython.locals(low=cython.Py_ssize_t, high=cython.Py_ssize_t, middle=cython.Py_ssize_t,
        piece=BufferedSegment)
    cdef Py_ssize_t _count_up_to(self, long long stream_offset) except -1
    cpdef acknowledge(self, long long stream_offset, long long now_ns)
    cpdef bint count_segment(self) except -1
    cpdef bint is_expired(self, long long now_ns) except -1
    cpdef bint is_overdue(self, long long now_ns) except -1


@cython.locals(start=cython.longlong)
cdef bint differs(BufferedSegment earlier, Segment segment, long long stream_offset, long long at,
    long long stop, source) except -1


cdef class PathTimer:
    cdef public RoundTripHistory history
    cdef public bint is_timed, has_syn, is_syn
    cdef public long long end, sent_ns

    cpdef begin(self, long long end, long long time_ns)
    cpdef begin_syn(self, long long end, long long time_ns)
    cpdef cancel(self)
    @cython.locals(may_be_delayed=cython.bint, is_prompt=cython.bint)
    cpdef acknowledge(self, long long sequence, long long newly, bint has_payload,
        long long time_ns, long long packet)


cdef class HalfStream(StreamAnomalies):
    cdef object _limits
    cdef ReorderBuffer _buffer
    cdef public PathTimer timer
    cdef public bint fin_acknowledged
    cdef public long long out_of_window
    cdef public bint has_last_ack
    cdef public long long last_ack, last_ack_time_ns, last_ack_packet

    cpdef bint has_hole(self) except -1
    cpdef bint is_in_order(self) except -1
    @cython.locals(last=BufferedSegment)
    cpdef long long furthest(self) except? -1
    @cython.locals(buffer=ReorderBuffer, is_behind=cython.bint, hole_since_ns=cython.longlong)
    cpdef add(self, Segment segment, long long stream_offset, StreamWriter out)
    cdef _note_again(self, Segment segment, long long stream_offset, bint is_repeated,
        long long hole_since_ns)
    cpdef bint is_probe(self, Segment segment, long long stream_offset) except -1
    @cython.locals(repeated=cython.longlong, last=cython.longlong, skip=cython.longlong,
        length=cython.longlong, captured=cython.longlong)
    cdef long long _add_out_of_order(self, Segment segment, long long stream_offset, long long end,
        StreamWriter out, bint is_probe) except -1
    cpdef finish_at(self, long long stream_offset)
    cpdef note_ack(self, long long acknowledgment, bint has_payload, long long time_ns,
        long long packet)
    cpdef acknowledge(self, long long sequence, long long time_ns)
    cpdef age(self, long long now_ns, StreamWriter out)
    cpdef count_segment(self, long long now_ns, StreamWriter out)
    @cython.locals(acknowledged=cython.longlong)
    cdef _give_up_acknowledged(self, long long now_ns, StreamWriter out)
    @cython.locals(after=BufferedSegment)
    cpdef give_up(self, long long now_ns, StreamWriter out)
    @cython.locals(length=cython.longlong, end=cython.longlong)
    cpdef end(self, StreamWriter out)
    cdef _lose(self, long long length, BufferedSegment after, StreamWriter out)
    @cython.locals(piece=BufferedSegment)
    cdef _drain(self, long long now_ns, StreamWriter out)


@cython.locals(length=cython.longlong)
cdef long long missing_tail(HalfStream half) except -1
