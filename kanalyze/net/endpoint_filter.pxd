# The C types of endpoint_filter.py.
cimport cython

from kanalyze.net.header_cursor cimport HeaderCursor, DROPPED
from kanalyze.net.layers cimport find_tcp

cdef enum:
    PORTS_BYTES = 4
    NETWORK_NUMBERS = 5


cdef class EndpointFilter:
    cdef const unsigned char[::1] _ports
    cdef unsigned long long[::1] _networks
    cdef long long _network_count
    cdef bint _is_fragment

    @cython.locals(row=cython.longlong, used=cython.longlong, link=cython.longlong, is_selected=cython.bint)
    cdef long long _fill(self, HeaderCursor cursor, long long[::1] rows, long long packets) except -1
    @cython.locals(source=cython.longlong, destination=cython.longlong)
    cdef bint _has_port(self, HeaderCursor cursor) except -1
    @cython.locals(index=cython.longlong, at=cython.longlong)
    cdef bint _has_network(self, HeaderCursor cursor) except -1
    cdef bint _is_in(self, long long at, unsigned long long high, unsigned long long low) except -1
