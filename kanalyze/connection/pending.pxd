# The C types of pending.py.
cimport cython

from kanalyze.connection.exchange cimport Exchange


@cython.final
cdef class Pending:
    cdef public long long _most
    cdef public dict _by_id
    cdef readonly long long size

    cpdef add(self, Exchange exchange)
    cpdef oldest(self, correlation_id)
    cpdef answer(self, correlation_id)
    cpdef remove(self, Exchange exchange)
