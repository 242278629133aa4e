# The C types of headers.py.
cimport cython

from kanalyze.net.header_cursor cimport (ANY_IP, DROPPED, ETHERNET, FAMILY, FRAGMENT, IP_VERSION,
    IPV4, IPV6, LLC_FRAME, TCP, TOO_DEEP, TRANSPORT, HeaderCursor, read_ethernet, read_ipv4,
    read_ipv6, read_llc, without_tags)

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
    MAX_ROUNDS = 24
    TCP_BYTES = 20
    PORTS_BYTES = 4
    NETWORK_NUMBERS = 5


@cython.final
cdef class SegmentColumnsBuilder:
    cdef long long _used
    cdef long long[::1] _number, _time_ns, _is_ipv6
    cdef unsigned long long[::1] _source_high, _source_low, _destination_high, _destination_low
    cdef long long[::1] _source_port, _destination_port, _sequence, _acknowledgment, _flags
    cdef long long[::1] _window, _checksum, _identification, _payload_start, _payload_bytes
    cdef long long[::1] _captured_bytes

    @cython.locals(at=cython.longlong, payload_start=cython.longlong, payload_bytes=cython.longlong,
        captured_bytes=cython.longlong, row=cython.longlong)
    cdef int put(self, HeaderCursor cursor, long long number, long long time_ns) except -1


@cython.locals(numbers="const long long[::1]", times="const long long[::1]", count=cython.longlong,
    segments=cython.longlong, row=cython.Py_ssize_t, link=cython.longlong,
    builder=SegmentColumnsBuilder)
cpdef read_all(list builders, HeaderCursor cursor, reassemble)
@cython.locals(at=cython.longlong, header_bytes=cython.longlong)
cdef bint has_tcp_header(HeaderCursor cursor) except -1
cdef long long shard_at(HeaderCursor cursor, long long count) except -1
cdef bint drop_cut(HeaderCursor cursor) except -1
cdef bint drop_bad(HeaderCursor cursor) except -1
cdef count_tunnels(HeaderCursor cursor)


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


@cython.locals(kind=cython.longlong, _i=cython.int)
cpdef bint find_tcp(HeaderCursor cursor, long long link, reassemble) except -1
cdef long long inside_ip(HeaderCursor cursor, long long kind) except? -2
cdef bint is_read(long long kind) except -1
cpdef long long read_other(HeaderCursor cursor, long long kind) except? -2
cdef long long count_other(HeaderCursor cursor, long long kind) except? -2
cpdef long long read_link(HeaderCursor cursor, long long link) except? -1
@cython.locals(version=cython.longlong)
cpdef long long read_version(HeaderCursor cursor) except? -1
@cython.locals(kind=cython.longlong)
cdef long long read_ethertype(HeaderCursor cursor, long long type_at, long long header_bytes) except? -1
@cython.locals(at=cython.longlong, family=cython.longlong)
cdef long long read_family(HeaderCursor cursor) except? -1
cdef long long read_rare(HeaderCursor cursor, long long link) except? -1
cdef long long count_unknown(HeaderCursor cursor, long long link) except? -1


cdef unsigned long long MIX_ADDRESS, MIX_PORT, MIX_BOTH, LOW_64_BITS


@cython.locals(target="long long[::1]", source_high="const unsigned long long[::1]",
    source_low="const unsigned long long[::1]", source_port="const long long[::1]",
    destination_high="const unsigned long long[::1]",
    destination_low="const unsigned long long[::1]", destination_port="const long long[::1]",
    row=cython.Py_ssize_t)
cdef fill_shards(shards, segments, long long count)
@cython.locals(ends=cython.ulonglong)
cpdef long long shard_of(unsigned long long source_high, unsigned long long source_low,
    unsigned long long source_port, unsigned long long destination_high,
    unsigned long long destination_low, unsigned long long destination_port,
    unsigned long long count) except -1
@cython.locals(both=cython.ulonglong)
cdef unsigned long long mixed(unsigned long long high, unsigned long long low,
    unsigned long long port) noexcept
