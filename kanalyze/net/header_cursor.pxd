# The C types of header_cursor.py, and the numbers of header_kinds.py, which
# tests/net/test_header_kinds.py compares.
cimport cython

cdef int ARP, MPLS, PPPOE, LLC, IP_PROTOCOL, ETHERNET_BYTES, TYPE_AT, MAX_TAGS, MAX_LENGTH, SNAP
cdef int SNAP_BYTES, LLC_IP, LLC_BYTES, LLDP, TAG_Q, TAG_AD, TAG_OLD, TAG_OLDER, TCP_PROTOCOL
cdef int IPV4_BYTES, IPV6_BYTES, FRAGMENT_BITS, MORE_FRAGMENTS, FRAGMENT_OFFSET_MASK
cdef int FRAGMENT_HEADER, FRAGMENT_HEADER_BYTES, AUTHENTICATION, MAX_EXTENSIONS
cdef int LARGEST_UNSTATED_BYTES

cdef enum:
    IPV4 = 2048
    IPV6 = 34525
    ETHERNET = 25944
    FAMILY = 196608
    IP_VERSION = 262144
    TRANSPORT = 327680
    TCP = 327686
    LLC_FRAME = 458753
    ANY_IP = 458754
    TOO_DEEP = 458756
    DROPPED = -1
    FRAGMENT = 458757


# After "except" stands a name, because Cython writes wrong code for a number in a final class.
@cython.final
cdef class HeaderCursor:
    cdef readonly object batch, stats
    cdef readonly long long row
    cdef public long long at, limit, end
    cdef readonly long long wire_bytes
    cdef public long long kind, tunnels
    cdef public bint is_ipv6
    cdef public unsigned long long source_high, source_low, destination_high, destination_low
    cdef public long long identification, ip_at, ip_end, datagram_protocol, fragment_offset
    cdef public bint has_more
    cdef public object datagram_key
    cdef readonly long long base
    cdef const unsigned char[::1] data
    cdef const long long[::1] _offsets, _captured, _wires
    cdef const int[::1] _links
    cdef list _joined
    cdef long long _joined_bytes, _used_bytes

    cpdef long long begin(self, long long row) except? DROPPED
    cpdef long long u8(self, long long at) except? DROPPED
    cpdef long long u16(self, long long at) except? DROPPED
    cpdef long long u32(self, long long at) except? DROPPED
    @cython.locals(high=cython.ulonglong)
    cpdef unsigned long long u64(self, long long at) except? IPV4
    @cython.locals(at=cython.longlong)
    cpdef long long peek8(self, long long skip) except? DROPPED
    @cython.locals(at=cython.longlong)
    cpdef long long peek16(self, long long skip) except? DROPPED
    @cython.locals(at=cython.longlong)
    cpdef long long peek32(self, long long skip) except? DROPPED
    cpdef bint fits(self, long long size) noexcept
    cdef long long _find_used_bytes(self) except DROPPED


cpdef long long read_ethernet(HeaderCursor cursor) except? -1
cpdef long long without_tags(HeaderCursor cursor, long long kind) except? -1
cdef bint is_tag(long long kind) noexcept
@cython.locals(start=cython.longlong, kind=cython.longlong)
cpdef long long read_llc(HeaderCursor cursor) except? -1
@cython.locals(first=cython.longlong, header_bytes=cython.longlong)
cpdef bint looks_like_ip(HeaderCursor cursor, long long skip, long long kind) except -1
cpdef bint looks_like_ethernet(HeaderCursor cursor, long long skip) except -1
@cython.locals(at=cython.longlong, version=cython.longlong, header_bytes=cython.longlong,
    total_bytes=cython.longlong, fragment_field=cython.longlong)
cpdef long long read_ipv4(HeaderCursor cursor) except? -1
@cython.locals(at=cython.longlong, total_bytes=cython.longlong)
cpdef long long read_ipv6(HeaderCursor cursor) except? -1
@cython.locals(at=cython.longlong, length=cython.longlong)
cdef long long without_extensions(HeaderCursor cursor, long long protocol) except? -1
cdef bint is_option(long long protocol) noexcept
cdef long long unstated_bytes(HeaderCursor cursor) except? -1
