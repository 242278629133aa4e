# The C types of direction.py.
cimport cython

from kanalyze.net.tcp.stream_anomalies cimport Findings
from kanalyze.net.tcp.delivery cimport Held, Segment, StreamWriter

cdef enum:
    CONTROL = 7
    FUTURE_BYTES = 1073741824
    PAST_BYTES = 67108864

cdef long long SEQUENCE_MASK, HALF

cpdef long long distance(long long later, long long earlier) noexcept


cdef class Direction:
    cdef public object connection
    cdef public long long index
    cdef public long long _hole_ns
    cdef public long long _acknowledged_hole_ns
    cdef public long long _acknowledged_hole_segments
    cdef public long long _most_held_bytes
    cdef public long long _most_held_segments
    cdef public Findings findings
    cdef public bint started
    cdef public bint has_syn
    cdef public long long first_sequence
    cdef public long long next_sequence
    cdef public long long position
    cdef public object fin_position
    cdef public bint fin_acknowledged
    cdef public list held
    cdef public long long held_bytes
    cdef public long long hole_since_ns
    cdef public long long acknowledged
    cdef public long long acknowledged_since_ns
    cdef public long long acknowledged_segments
    cdef public long long strays
    cdef public bint has_told
    cdef public long long told_acknowledgment
    cdef public long long told_time_ns
    cdef public long long told_packet

    cpdef bint can_pass(self) except -1
    cpdef tell(self, long long acknowledgment, long long time_ns, long long packet)
    cpdef long long place(self, long long sequence) noexcept
    @cython.locals(ahead=cython.longlong)
    cpdef bint is_stray(self, long long position, long long end) except -1
    @cython.locals(
        end=cython.longlong, is_probe=cython.bint, is_behind=cython.bint, repeated=cython.longlong
    )
    cpdef add(self, Segment segment, long long position, StreamWriter out)
    cpdef bint is_probe(self, Segment segment, long long position) except -1
    @cython.locals(
        repeated=cython.longlong,
        skip=cython.longlong,
        left=cython.longlong,
        captured=cython.longlong,
    )
    cdef long long _add_odd(
        self, Segment segment, long long position, long long end, StreamWriter out, bint is_probe
    ) except -1
    cpdef finish_at(self, long long position)
    @cython.locals(position=cython.longlong)
    cpdef acknowledge(self, long long sequence, long long time_ns)
    @cython.locals(waited_ns=cython.longlong)
    cpdef bint is_overdue(self, long long now_ns) except -1
    @cython.locals(first=Held)
    cpdef age(self, long long now_ns, StreamWriter out)
    cpdef count_segment(self, long long now_ns, StreamWriter out)
    @cython.locals(after=Held, length=cython.longlong)
    cpdef give_up(self, long long now_ns, StreamWriter out)
    @cython.locals(first=Held)
    cpdef give_up_all(self, StreamWriter out)
    @cython.locals(end=cython.longlong, length=cython.longlong, after=Held)
    cpdef lose_tail(self, StreamWriter out)
    @cython.locals(acknowledged=cython.longlong)
    cdef _give_up_acknowledged(self, long long now_ns, StreamWriter out)
    @cython.locals(last=Held)
    cdef long long furthest(self) except? -1
    cdef Held _last(self)
    cdef _pass(self, long long length)
    @cython.locals(position=cython.longlong, count=cython.Py_ssize_t, piece=Held, pieces=list)
    cdef _drain(self, long long now_ns, StreamWriter out)
    @cython.locals(
        end=cython.longlong,
        at=cython.longlong,
        repeated=cython.longlong,
        index=cython.Py_ssize_t,
        before=Held,
        earlier=Held,
        piece=Held,
        stop=cython.longlong,
        first=cython.longlong,
        last=cython.longlong,
        data=bytes,
    )
    cdef long long _hold(self, Segment segment, long long position, StreamWriter out) except -1
    @cython.locals(low=cython.Py_ssize_t, high=cython.Py_ssize_t, middle=cython.Py_ssize_t, piece=Held)
    cdef Py_ssize_t _count_up_to(self, long long position) except -1
    @cython.locals(start=cython.longlong, size=cython.Py_ssize_t)
    cdef _compare(
        self,
        Held earlier,
        Segment segment,
        long long position,
        long long at,
        long long stop,
        StreamWriter out,
    )
    @cython.locals(before_start=cython.longlong)
    cdef long long _count_old(self, long long position, long long end, bint is_probe) except -1
    cpdef note_limit(self)
