# The C types of header_cursor.py, and the numbers of header_kinds.py, which
# tests/net/test_header_kinds.py compares.
cimport cython

cdef enum:
    IPV4 = 2048
    IPV6 = 34525
    ARP = 2054
    MPLS = 34887
    PPPOE = 34916
    ETHERNET = 25944
    LLC = 65536
    FAMILY = 196608
    IP_VERSION = 262144
    TRANSPORT = 327680
    IP_PROTOCOL = 327680
    TCP = 327686
    LLC_FRAME = 458753
    ANY_IP = 458754
    TOO_DEEP = 458756
    DROPPED = -1
    FRAGMENT = 458757

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


# After "except" stands a name, because Cython writes wrong code for a number in a final class.
@cython.final
cdef class HeaderCursor:
    cdef readonly object batch, stats
    cdef readonly long long row
    cdef public long long at, limit, end
    cdef readonly long long wire_bytes
    cdef public long long kind, kind_at, kind_limit, tunnels
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
    @cython.locals(end=cython.longlong)
    cpdef bytes rest(self, long long most)
    cpdef bint fits(self, long long size) noexcept
    cpdef long long cut(self, str where) except? DROPPED
    cpdef note(self, kind, str detail)
    cpdef enter(self, long long tunnel)
    cpdef shorten(self, long long end)
    cpdef enter_joined(self, bytes data, long long wire_bytes)
    @cython.locals(used=cython.longlong, row=cython.Py_ssize_t)
    cdef long long _find_used_bytes(self) except DROPPED


@cython.locals(kind=cython.longlong)
cpdef long long read_ethernet(HeaderCursor cursor) except? -1
@cython.locals(_i=cython.int)
cpdef long long without_tags(HeaderCursor cursor, long long kind) except? -1
cdef bint is_tag(long long kind) noexcept
@cython.locals(start=cython.longlong, kind=cython.longlong, organization=cython.longlong,
    ethertype=cython.longlong)
cpdef long long read_llc(HeaderCursor cursor) except? -1
@cython.locals(first=cython.longlong, total_bytes=cython.longlong, header_bytes=cython.longlong)
cpdef bint looks_like_ip(HeaderCursor cursor, long long skip, long long kind) except -1
@cython.locals(ethertype=cython.longlong)
cpdef bint looks_like_ethernet(HeaderCursor cursor, long long skip) except -1
@cython.locals(at=cython.longlong, version=cython.longlong, header_bytes=cython.longlong,
    total_bytes=cython.longlong, fragment_field=cython.longlong, protocol=cython.longlong)
cpdef long long read_ipv4(HeaderCursor cursor) except? -1
@cython.locals(at=cython.longlong, total_bytes=cython.longlong, protocol=cython.longlong)
cpdef long long read_ipv6(HeaderCursor cursor) except? -1
@cython.locals(_i=cython.int, at=cython.longlong, following=cython.longlong, length=cython.longlong,
    fragment_field=cython.longlong)
cdef long long without_extensions(HeaderCursor cursor, long long protocol) except? -1
cdef bint is_option(long long protocol) noexcept
@cython.locals(fragment_field=cython.longlong)
cdef note_fragment(HeaderCursor cursor, long long at, long long protocol)
@cython.locals(on_wire=cython.longlong)
cdef long long unstated_bytes(HeaderCursor cursor) except? -1
cdef long long drop_bad(HeaderCursor cursor) except? -2
