# The C types of ip_headers.py.
cimport cython

from kanalyze.net.header_cursor cimport HeaderCursor, DROPPED, FRAGMENT, IP_PROTOCOL

cdef enum:
    TCP_PROTOCOL = 6
    IPV4_BYTES = 20
    IPV6_BYTES = 40
    FRAGMENT_BITS = 16383
    MORE_FRAGMENTS = 8192
    FRAGMENT_OFFSET_MASK = 8191
    FRAGMENT_HEADER = 44
    FRAGMENT_HEADER_BYTES = 8
    AUTHENTICATION = 51
    MAX_EXTENSIONS = 16
    LARGEST_UNSTATED_BYTES = 1048576


@cython.locals(
    at=cython.longlong,
    version=cython.longlong,
    header_bytes=cython.longlong,
    total_bytes=cython.longlong,
    fragment_field=cython.longlong,
    protocol=cython.longlong,
)
cpdef long long read_ipv4(HeaderCursor cursor) except? -1
@cython.locals(at=cython.longlong, total_bytes=cython.longlong, protocol=cython.longlong)
cpdef long long read_ipv6(HeaderCursor cursor) except? -1
@cython.locals(
    _i=cython.int,
    at=cython.longlong,
    following=cython.longlong,
    length=cython.longlong,
    fragment_field=cython.longlong,
)
cdef long long without_extensions(HeaderCursor cursor, long long protocol) except? -1
cdef bint is_option(long long protocol) noexcept
@cython.locals(fragment_field=cython.longlong)
cdef note_fragment(HeaderCursor cursor, long long at, long long protocol)
@cython.locals(on_wire=cython.longlong)
cdef long long unstated_bytes(HeaderCursor cursor) except? -1
cdef long long drop_bad(HeaderCursor cursor) except? -2
