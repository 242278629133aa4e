# The C types of correlation.py.
cimport cython

from kanalyze.kafka.session.exchange cimport Exchange, Message


@cython.final
cdef class PendingRequests:
    cdef public long long _most
    cdef public dict _by_id
    cdef public Exchange _only
    cdef readonly long long size

    cdef _put_in_table(self)
    cpdef add(self, Exchange exchange)
    cpdef oldest(self, long long correlation_id)
    cpdef Exchange first(self)
    @cython.locals(only=Exchange)
    cpdef pop(self, long long correlation_id)
    cpdef remove(self, Exchange exchange)


@cython.final
cdef class LostMessages:
    cdef public bint requests
    cdef public bint responses
    cdef public long long unsure_before


@cython.final
cdef class Correlator:
    cdef public PendingRequests pending
    cdef public LostMessages lost
    cdef public _UsedIds _used
    cdef public bint _reuses_ids
    cdef public bint _pipelined
    cdef public bint keeps_order
    cdef public long long _last_answered_offset
    cdef public long long _last_answer_offset

    cpdef add(self, Exchange exchange)
    cpdef bint is_ambiguous(self) except -1
    cpdef match(self, long long correlation_id, long long packet)
    @cython.locals(asked=cython.longlong, answered=cython.longlong, is_late=cython.bint)
    cpdef bint follow_order(self, Message request, Message response) except -1
    @cython.locals(earliest=Exchange)
    cpdef bint overtakes(self, Message request) except -1
    cdef _match_unique(self, long long correlation_id, long long packet)


@cython.final
cdef class _UsedIds:
    cdef public list _firsts
    cdef public list _lasts
    cdef public long long _last
    cdef public long long _limit

    cpdef bint add(self, long long correlation_id) except -1
    @cython.locals(firsts=list, lasts=list, index=cython.Py_ssize_t)
    cdef bint _start_run(self, long long correlation_id) except -1


cdef long long _NO_ID


cdef long long _start_packet(Exchange exchange) except? -1


@cython.final
cdef class EarlyResponses:
    cdef public list _responses
    cdef readonly long long buffered_bytes

    cpdef bint has_any(self) except -1


@cython.final
cdef class OneWayRequests:
    cdef public PendingRequests _requests
    cdef public object _sends_responses

    cpdef bint has_any(self) except -1
