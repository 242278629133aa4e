# The C types of ethernet.py.
cimport cython

from kanalyze.net.header_cursor cimport ARP, HeaderCursor, IPV4, IPV6, LLC, LLC_FRAME, MPLS, PPPOE

cdef enum:
    ETHERNET_BYTES = 14
    TYPE_AT = 12
    MAX_TAGS = 8
    MAX_LENGTH = 1500
    SNAP = 11184643
    SNAP_BYTES = 8
    LLC_IP = 394755
    LLC_BYTES = 3
    LLDP = 35020
    TAG_Q = 33024
    TAG_AD = 34984
    TAG_OLD = 37120
    TAG_OLDER = 37376


@cython.locals(kind=cython.longlong)
cpdef long long read_ethernet(HeaderCursor cursor) except? -1
@cython.locals(_i=cython.int)
cpdef long long without_tags(HeaderCursor cursor, long long kind) except? -1
cdef bint is_tag(long long kind) noexcept
@cython.locals(
    start=cython.longlong,
    kind=cython.longlong,
    organization=cython.longlong,
    ethertype=cython.longlong,
)
cpdef long long read_llc(HeaderCursor cursor) except? -1
@cython.locals(
    first=cython.longlong, total_bytes=cython.longlong, header_bytes=cython.longlong
)
cpdef bint looks_like_ip(HeaderCursor cursor, long long skip, long long kind) except -1
@cython.locals(ethertype=cython.longlong)
cpdef bint looks_like_ethernet(HeaderCursor cursor, long long skip) except -1
