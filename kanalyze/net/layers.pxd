# The C types of layers.py.
cimport cython

from kanalyze.net.header_cursor cimport (
    ANY_IP,
    HeaderCursor,
    DROPPED,
    ETHERNET,
    FRAGMENT,
    IPV4,
    IPV6,
    LLC_FRAME,
    TCP,
    TOO_DEEP,
    TRANSPORT,
)
from kanalyze.net.link.ethernet cimport read_ethernet, read_llc
from kanalyze.net.ip.ip_headers cimport read_ipv4, read_ipv6
from kanalyze.net.link.linktypes cimport read_link, read_version

cdef enum:
    MAX_ROUNDS = 24


@cython.locals(kind=cython.longlong, _i=cython.int)
cpdef bint find_tcp(HeaderCursor cursor, long long link, reassemble) except -1
cdef long long inside_ip(HeaderCursor cursor, long long kind) except? -2
cdef bint is_read(long long kind) except -1
cpdef long long read_other(HeaderCursor cursor, long long kind) except? -2
cdef long long count_other(HeaderCursor cursor, long long kind) except? -2
