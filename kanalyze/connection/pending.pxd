# The C types of pending.py.
from kanalyze.connection.exchange cimport Exchange


cdef class Pending:
    cdef public long long _most
    cdef public dict _by_id
    cdef public long long _count

    cpdef add(self, Exchange exchange)
    cpdef oldest(self, correlation_id)
    cpdef answer(self, correlation_id)
