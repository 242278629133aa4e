# The C types of pending_requests.py.
cimport cython

from kanalyze.kafka.session.exchange cimport Exchange


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
