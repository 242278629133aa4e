# The C types of headers.py.
cimport cython

from kanalyze.net.header_cursor cimport (ANY_IP, DROPPED, ETHERNET, FAMILY, FRAGMENT, IP_VERSION,
    IPV4, IPV6, LLC_FRAME, TCP, TOO_DEEP, TRANSPORT, HeaderCursor, read_ethernet, read_ipv4,
    read_ipv6, read_llc, without_tags)

cdef int BSD_LOOPBACK, LINK_ETHERNET, RAW_BSD, RAW_OPENBSD, RAW, OPENBSD_LOOPBACK, COOKED, COOKED_2
cdef int COOKED_LLC, FAMILY_BYTES, FAMILY_IPV4, MAX_ROUNDS, TCP_BYTES, PORTS_BYTES, NETWORK_NUMBERS


@cython.final
cdef class SegmentColumnsBuilder:
    cdef long long _used
    cdef long long[::1] _number, _time_ns, _is_ipv6
    cdef unsigned long long[::1] _source_high, _source_low, _destination_high, _destination_low
    cdef long long[::1] _source_port, _destination_port, _sequence, _acknowledgment, _flags
    cdef long long[::1] _window, _checksum, _identification, _payload_start, _payload_bytes
    cdef long long[::1] _captured_bytes

    @cython.locals(at=cython.longlong, payload_start=cython.longlong, payload_bytes=cython.longlong,
        captured_bytes=cython.longlong)
    cdef int put(self, HeaderCursor cursor, long long number, long long time_ns) except -1


@cython.locals(numbers="const long long[::1]", times="const long long[::1]", count=cython.longlong,
    segments=cython.longlong, builder=SegmentColumnsBuilder)
cpdef read_all(list builders, HeaderCursor cursor, reassemble)
@cython.locals(at=cython.longlong, header_bytes=cython.longlong)
cdef bint has_tcp_header(HeaderCursor cursor) except -1
cdef long long shard_at(HeaderCursor cursor, long long count) except -1
cdef count_tunnels(HeaderCursor cursor)


cdef class EndpointFilter:
    cdef const unsigned char[::1] _ports
    cdef unsigned long long[::1] _networks
    cdef long long _network_count
    cdef bint _is_fragment

    @cython.locals(used=cython.longlong)
    cdef long long _fill(self, HeaderCursor cursor, long long[::1] rows, long long packets) except -1
    cdef bint _has_port(self, HeaderCursor cursor) except -1
    @cython.locals(index=cython.longlong, at=cython.longlong)
    cdef bint _has_network(self, HeaderCursor cursor) except -1
    cdef bint _is_in(self, long long at, unsigned long long high, unsigned long long low) except -1


@cython.locals(kind=cython.longlong)
cpdef bint find_tcp(HeaderCursor cursor, long long link, reassemble) except -1
cdef long long inside_ip(HeaderCursor cursor, long long kind) except? -2
cdef bint is_read(long long kind) except -1
cpdef long long read_other(HeaderCursor cursor, long long kind) except? -2
cpdef long long read_link(HeaderCursor cursor, long long link) except? -1
cpdef long long read_version(HeaderCursor cursor) except? -1
cdef long long read_ethertype(HeaderCursor cursor, long long type_at, long long header_bytes) except? -1
@cython.locals(at=cython.longlong)
cdef long long read_family(HeaderCursor cursor) except? -1


cdef unsigned long long MIX_ADDRESS, MIX_PORT, MIX_BOTH, LOW_64_BITS


@cython.locals(target="long long[::1]", source_high="const unsigned long long[::1]",
    source_low="const unsigned long long[::1]", source_port="const long long[::1]",
    destination_high="const unsigned long long[::1]",
    destination_low="const unsigned long long[::1]", destination_port="const long long[::1]")
cdef fill_shards(shards, segments, long long count)
@cython.locals(ends=cython.ulonglong)
cpdef long long shard_of(unsigned long long source_high, unsigned long long source_low,
    unsigned long long source_port, unsigned long long destination_high,
    unsigned long long destination_low, unsigned long long destination_port,
    unsigned long long count) except -1
@cython.locals(both=cython.ulonglong)
cdef unsigned long long mixed(unsigned long long high, unsigned long long low,
    unsigned long long port) noexcept
