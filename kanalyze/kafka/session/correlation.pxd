# The C types of correlation.py.
cimport cython
from libc.stdlib cimport free, realloc

from kanalyze.kafka.session.exchange cimport Exchange, Message

cdef enum:
    FEW = 8


cdef inline long long* more_ids(long long* old, Py_ssize_t room) except NULL:
    cdef void* ids = realloc(old, room * sizeof(long long))
    if ids is NULL:
        raise MemoryError("correlation ids")
    return <long long*> ids


cdef inline void free_ids(long long* ids) noexcept:
    free(ids)


@cython.final
cdef class PendingRequests:
    cdef public long long _most
    cdef list _waiting
    cdef long long* _ids
    cdef Py_ssize_t _first, _room
    cdef readonly long long size

    @cython.locals(index=cython.Py_ssize_t)
    cdef Py_ssize_t _place(self, long long correlation_id) except -2
    @cython.locals(place=cython.Py_ssize_t)
    cpdef add(self, Exchange exchange)
    @cython.locals(index=cython.Py_ssize_t)
    cpdef oldest(self, long long correlation_id)
    cpdef Exchange first(self)
    @cython.locals(index=cython.Py_ssize_t)
    cpdef pop(self, long long correlation_id)
    @cython.locals(index=cython.Py_ssize_t)
    cpdef remove(self, Exchange exchange)
    cdef Exchange _take(self, Py_ssize_t index)
    @cython.locals(index=cython.Py_ssize_t)
    cdef int _close_gap(self, Py_ssize_t begin, Py_ssize_t end) except -1


@cython.final
cdef class LostMessages:
    cdef public bint requests, responses
    cdef public long long unsure_before


@cython.final
cdef class Correlator:
    cdef public PendingRequests pending
    cdef public LostMessages lost
    cdef public _UsedIds _used
    cdef public bint _reuses_ids, _pipelined, keeps_order
    cdef public long long _last_answered_offset, _last_answer_offset

    cpdef add(self, Exchange exchange)
    cpdef bint is_ambiguous(self) except -1
    cpdef match(self, long long correlation_id, long long packet)
    @cython.locals(is_late=cython.bint)
    cpdef bint follow_order(self, long long asked, long long answered) except -1
    @cython.locals(earliest=Exchange, waiting=Message)
    cpdef bint overtakes(self, long long asked) except -1
    cdef _match_unique(self, long long correlation_id, long long packet)


@cython.final
cdef class _UsedIds:
    cdef public object _firsts, _lasts
    cdef long long _first
    cdef public long long _last, _limit

    cpdef bint add(self, long long correlation_id) except -1
    @cython.locals(index=cython.Py_ssize_t)
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
