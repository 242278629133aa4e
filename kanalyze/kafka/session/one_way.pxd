# The C types of one_way.py.
cimport cython

from kanalyze.kafka.session.pending_requests cimport Pending


@cython.final
cdef class OneWayRequests:
    cdef public Pending _waiting
    cdef public object _is_answered

    cpdef bint is_waiting(self) except -1
