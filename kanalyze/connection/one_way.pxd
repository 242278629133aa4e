# The C types of one_way.py.
from kanalyze.connection.pending cimport Pending


cdef class OneWayRequests:
    cdef public Pending _waiting
    cdef public object _is_answered
