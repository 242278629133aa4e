# The C types of connection_state.py.
cimport cython

from kanalyze.net.tcp.half_stream cimport Direction, distance
from kanalyze.net.tcp.tcp_metrics cimport Meter
from kanalyze.net.tcp.delivery cimport Segment, StreamWriter
from kanalyze.net.tcp.segment_iterator cimport Walk
from kanalyze.model.segments cimport Segments

cdef enum:
    FIN = 1
    SYN = 2
    RST = 4
    ACK = 16
    CONTROL = 7
    IS_COPY = 1

cdef long long SEQUENCE_MASK


cdef class ConnectionState:
    cdef public tuple pair
    cdef public object tcp
    cdef public Direction lower
    cdef public Direction higher
    cdef public Meter meter
    cdef public long long seen
    cdef public object update
    cdef public tuple _writers
    cdef public object _limits
    cdef public object _notes

    cdef bint _has_ended(self) except -1
    cpdef begin_update(self)
    cpdef int take(self, Walk walk) except -1
    @cython.locals(for_lower=StreamWriter, items=tuple)
    cpdef tuple writers(self, Segments shared)
    @cython.locals(for_lower=StreamWriter, for_higher=StreamWriter)
    cpdef end_writing(self)
    @cython.locals(
        lower=Direction,
        higher=Direction,
        mine=Direction,
        other=Direction,
        writer=StreamWriter,
        for_lower=StreamWriter,
        for_higher=StreamWriter,
        last_time_ns=cython.longlong,
        lower_packets=cython.longlong,
        higher_packets=cython.longlong,
        lower_bytes=cython.longlong,
        higher_bytes=cython.longlong,
        row=cython.longlong,
        flags=cython.longlong,
        length=cython.longlong,
        from_higher=cython.longlong,
    )
    cdef _pass_in_order(self, Walk walk)
    cdef _count_passed(self, Direction direction, long long packets, long long payload_bytes)
    @cython.locals(row=cython.longlong, mine=Direction)
    cdef _pass_metered(self, Walk walk)
    @cython.locals(row=cython.longlong, mine=Direction)
    cdef bint _may_repeat(self, Walk walk) except -1
    @cython.locals(
        flags=cython.longlong,
        mine=Direction,
        other=Direction,
        writer=StreamWriter,
        for_lower=StreamWriter,
        for_higher=StreamWriter,
    )
    cpdef bint receive(self, Segment segment, Segments shared) except -1
    @cython.locals(flags=cython.longlong, is_stray=cython.bint, writer=StreamWriter)
    cdef bint _receive_odd(
        self,
        Segment segment,
        Direction mine,
        Direction other,
        StreamWriter for_lower,
        StreamWriter for_higher,
    ) except -1
    @cython.locals(first=cython.longlong, position=cython.longlong, end=cython.longlong)
    cdef bint _take_bytes(self, Segment segment, Direction mine, StreamWriter out) except -1
    @cython.locals(index=cython.longlong, is_empty_probe=cython.bint, is_last=cython.bint)
    cdef _count(self, Segment segment, Direction mine, bint is_stray)
    @cython.locals(is_answer=cython.bint, is_crossing=cython.bint)
    cdef bint _is_another(self, Segment segment, Direction mine, Direction other) except -1
    @cython.locals(is_answer=cython.bint)
    cdef _open(self, Segment segment, Direction mine, Direction other)
