# The C types of tcp.py.
cimport cython

cdef int NOT_KNOWN, FALL_BYTES, MAX_FALLS, MAX_DELAY_NS

cdef enum:
    FIRST_SEQUENCE = 0
    PACKETS = 2
    PAYLOAD_BYTES = 4
    RARE = 6
    RETRANSMITTED_BYTES = 6
    DUPLICATE_BYTES = 8
    KEEP_ALIVE_BYTES = 10
    OUT_OF_ORDER_PACKETS = 12
    LOST_BYTES = 14
    SNAPPED_BYTES = 16
    NUMBERS = 18

cdef enum:
    FAILED = -2  # a literal in a final class becomes a wrong literal of C (Cython 3.3.1)

cdef long long _KEPT_NS, _NEVER


cdef class RoundTrips:
    cdef public long long samples, total_ns
    cdef long long _least_ns, _most_ns

    cpdef add(self, long long elapsed_ns)


@cython.final
cdef class RoundTripHistory:
    cdef public long long least_ns, prompt_ns
    cdef bytes _earlier
    cdef long long _last_packet, _last_fall

    @cython.locals(current_ns=cython.longlong, last_ns=cython.longlong, is_full=cython.bint)
    cpdef add(self, long long elapsed_ns, bint is_prompt, long long packet)
    cdef _fall_to(self, long long fall_ns, long long packet)
    @cython.locals(least_ns=cython.longlong, earlier=cython.longlong, fall_ns=cython.longlong)
    cpdef long long least_at(self, long long packet) except? FAILED


@cython.final
cdef class NetworkPath:
    cdef readonly tuple round_trips
    cdef public bint has_events
    cdef public object _packets, _times, _senders, _begins, _ends, _are_tails
    cdef object _resent
    cdef public long long _first, _last, _forgotten
    cdef long long _quiet_after, _quiet_before

    cpdef add_retransmission(self, long long sender, long long begin, long long end, bint is_tail,
        long long time_ns, long long packet)
    cpdef add_zero_window(self, long long sender, long long time_ns, long long packet)
    cdef _add(self, long long sender, long long begin, long long end, bint is_tail,
        long long time_ns, long long packet)
    cpdef long long retransmissions(
        self, long long first, long long last, long long span_ns) except? FAILED
    cpdef long long zero_windows(
        self, long long first, long long last, long long span_ns) except? FAILED
    @cython.locals(packets="const long long[::1]", resent="const long long[::1]",
        begin=cython.Py_ssize_t, end=cython.Py_ssize_t, count=cython.longlong)
    cdef long long _count(self, long long first, long long last, long long span_ns,
        bint has_bytes) except? FAILED
    cdef long long _resent_before(self) except? FAILED
    @cython.locals(times="const long long[::1]", senders="const long long[::1]",
        begins="const long long[::1]", ends="const long long[::1]",
        are_tails="const long long[::1]", index=cython.Py_ssize_t, time_ns=cython.longlong,
        is_of_range=cython.bint, is_probe=cython.bint)
    cpdef long long last_resent_ns(self, long long sender, long long begin, long long end,
        long long first, long long last, long long sent_ns, long long until_ns) except? FAILED


@cython.locals(low=cython.Py_ssize_t, high=cython.Py_ssize_t, middle=cython.Py_ssize_t)
cdef Py_ssize_t _first_from(const long long[::1] packets, long long number) except -1


@cython.final
cdef class TcpConnection:
    cdef public long long serial, connection_number, first_time_ns, last_time_ns
    cdef public tuple endpoints, start_seen
    cdef public object opened_by, first_packet, closed_by, end, measures, tls, proxy
    cdef public bint reset
    cdef public NetworkPath path
    cdef long long _numbers[RARE]
    cdef object _rare

    cpdef add(self, int at, long long index, long long number)
    cpdef tuple numbers_at(self, int at)
    cdef _make_rare(self)
    cpdef set_numbers(self, int at, long long first, long long second)
    cdef start_stream(self, long long index, long long first_sequence, bint is_seen)
    cdef see_start(self, long long index, bint is_seen)
