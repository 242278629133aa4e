# The C types of one_way.py.
cimport cython

from kanalyze.kafka.session.pending_requests cimport PendingRequests


@cython.final
cdef class OneWayRequests:
    cdef public PendingRequests _requests
    cdef public object _sends_responses

    cpdef bint has_any(self) except -1
