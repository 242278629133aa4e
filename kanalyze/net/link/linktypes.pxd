# The C types of linktypes.py.
cimport cython

from kanalyze.net.header_cursor cimport HeaderCursor, DROPPED, FAMILY, IP_VERSION, IPV4, IPV6, LLC_FRAME
from kanalyze.net.link.ethernet cimport read_ethernet, without_tags

cdef enum:
    BSD_LOOPBACK = 0
    LINK_ETHERNET = 1
    RAW_BSD = 12
    RAW_OPENBSD = 14
    RAW = 101
    OPENBSD_LOOPBACK = 108
    COOKED = 113
    COOKED_2 = 276
    COOKED_LLC = 4
    FAMILY_BYTES = 4
    FAMILY_IPV4 = 2


cpdef long long read_link(HeaderCursor cursor, long long link) except? -1
@cython.locals(version=cython.longlong)
cpdef long long read_version(HeaderCursor cursor) except? -1
@cython.locals(kind=cython.longlong)
cdef long long read_ethertype(HeaderCursor cursor, long long type_at, long long header_bytes) except? -1
@cython.locals(at=cython.longlong, family=cython.longlong)
cdef long long read_family(HeaderCursor cursor) except? -1
cdef long long read_rare(HeaderCursor cursor, long long link) except? -1
cdef long long count_unknown(HeaderCursor cursor, long long link) except? -1
