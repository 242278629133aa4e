# The C types of pairing.py.
cimport cython

from kanalyze.kafka.session.exchange cimport Exchange
from kanalyze.kafka.session.pending_requests cimport Pending


@cython.final
cdef class Pairing:
    cdef public Pending _pending
    cdef public bint _requests_lost
    cdef public bint _responses_lost
    cdef public _UsedIds _used
    cdef public bint _repeats
    cdef public bint _pipelined
    cdef public long long _unsure_before
    cdef readonly list given_up

    cpdef ask(self, Exchange exchange)
    cpdef answer(self, long long correlation_id, long long packet)
    cpdef oldest(self, long long correlation_id)
    cpdef take_given_up(self)
    cdef _answer_unique(self, long long correlation_id, long long packet)


@cython.final
cdef class _UsedIds:
    cdef public list _firsts
    cdef public list _lasts
    cdef public long long _last
    cdef public long long _limit

    cpdef bint add(self, long long correlation_id) except -1
    @cython.locals(firsts=list, lasts=list, index=cython.Py_ssize_t)
    cdef bint _begin_run(self, long long correlation_id) except -1


cdef long long _NO_ID


cdef long long _began(Exchange exchange) except? -1
