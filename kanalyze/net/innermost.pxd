# The C types of innermost.py.
cimport cython

from kanalyze.net.header_cursor cimport HeaderCursor, DROPPED, IP_PROTOCOL, IPV4, IPV6
from kanalyze.net.ip.ip_headers cimport read_ipv4, read_ipv6
from kanalyze.net.layers cimport find_tcp

cdef enum:
    TCP_PROTOCOL = 6
    UDP_PROTOCOL = 17
    NONE = -1


cdef class Innermost:
    cdef readonly object kind
    cdef readonly object at
    cdef readonly object protocol
    cdef readonly object transport_at
    cdef readonly object limit
    cdef readonly object is_known
    cdef readonly list fragments
    cdef long long[::1] _kinds
    cdef long long[::1] _ats
    cdef long long[::1] _protocols
    cdef long long[::1] _transports
    cdef long long[::1] _limits
    cdef long long[::1] _known
    cdef bint _is_part

    @cython.locals(row=cython.longlong, link=cython.longlong)
    cdef _read(self, HeaderCursor cursor, long long rows)
    cdef _take(self, HeaderCursor cursor, long long protocol)
    @cython.locals(is_first=cython.bint)
    cdef _take_part(self, HeaderCursor cursor)
    cdef _note(self, HeaderCursor cursor)
    @cython.locals(kind=cython.longlong)
    cdef _read_other(self, HeaderCursor cursor)
