# The C types of packet_scan.py. The numbers are those that it has uncompiled: tests/capture/formats/test_packet_scan.py.
cimport cython

from kanalyze.model.streams cimport NO_TIME

cdef enum:
    FIRST_ROOM = 256

    NS_PER_S = 1000000000
    MAX_RECORD_BYTES = 268435456
    STANDARD_SNAP_BYTES = 262144
    LATE_S = 2712797184
    LIKELY_BEFORE_S = 86400
    LIKELY_AFTER_S = 31622400

    INTERFACE = 1
    OBSOLETE_PACKET = 2
    SIMPLE_PACKET = 3
    NAMES = 4
    STATISTICS = 5
    ENHANCED_PACKET = 6
    SECRETS = 10
    SECTION = 168627466
    MIN_BLOCK_BYTES = 12
    PACKET_OVERHEAD_BYTES = 32
    SIMPLE_OVERHEAD_BYTES = 16
    PACKET_AT = 28
    SIMPLE_PACKET_AT = 12
    MIN_OPTION_BYTES = 8
    MAX_OPTIONS = 64
    COMMENT = 1
    DROP_COUNT = 4
    UNKNOWN_DROPS = 65535
    MAX_HIGH_TICKS = 1073741823

cdef enum:
    END = 0
    FULL = 1
    AT_SECTION = 2
    AT_BLOCK = 3
    SHORT = 4
    WRONG = 5


cdef class ColumnMaker:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room
    cdef object _time_ns, _offset, _captured, _wire, _link_type
    cdef long long[::1] _times, _offsets, _captureds, _wires
    cdef int[::1] _link_types

    @cython.locals(at=cython.Py_ssize_t)
    cpdef int add(self, long long time_ns, long long offset, long long captured, long long wire,
        int link_type) except -1
    cpdef object take(self)
    @cython.locals(count=cython.Py_ssize_t)
    cpdef object take_all(self)
    cdef int _make_room(self, Py_ssize_t more) except -1


@cython.locals(a=cython.uint, b=cython.uint, c=cython.uint, d=cython.uint)
cdef long long u32(const unsigned char[::1] data, Py_ssize_t at, bint is_big_endian) except -1

@cython.locals(a=cython.uint, b=cython.uint)
cdef long long u16(const unsigned char[::1] data, Py_ssize_t at, bint is_big_endian) except -1


cdef class PcapRecords:
    cdef readonly int header_bytes
    cdef bint _is_big_endian
    cdef int _captured_at, _wire_at
    cdef long long _ns_per_unit
    cdef int _link_type
    cdef long long _most_captured

    @cython.locals(data="const unsigned char[::1]", is_big_endian=cython.bint,
        header_bytes=cython.Py_ssize_t, captured_at=cython.Py_ssize_t, wire_at=cython.Py_ssize_t,
        at=cython.Py_ssize_t, last=cython.Py_ssize_t, captured=cython.longlong,
        packet=cython.Py_ssize_t, seconds=cython.longlong, time_ns=cython.longlong,
        wire=cython.longlong, is_odd=cython.bint)
    cpdef Py_ssize_t scan(self, object buffer, Py_ssize_t start, Py_ssize_t end, ColumnMaker maker,
        Py_ssize_t most) except -1
    cpdef long long captured_bytes(self, object buffer, Py_ssize_t at) except -1
    @cython.locals(fraction=cython.longlong)
    cpdef long long time_ns(self, object buffer, Py_ssize_t at) except? -1
    @cython.locals(data="const unsigned char[::1]", is_big_endian=cython.bint,
        header_bytes=cython.Py_ssize_t, captured_at=cython.Py_ssize_t, wire_at=cython.Py_ssize_t,
        at=cython.Py_ssize_t, captured=cython.longlong, wire=cython.longlong,
        most_fraction=cython.longlong, after_s=cython.longlong)
    cpdef tuple likely(self, object buffer, Py_ssize_t start, Py_ssize_t end, long long near_s)


cdef class PcapngBlocks:
    cdef readonly int stop
    cdef readonly long long kind, size, packets
    cdef object _metadata
    cdef bint _is_big_endian
    cdef list _clocks
    cdef Py_ssize_t _interfaces
    cdef long long[::1] _factors, _limits, _offsets
    cdef int[::1] _link_types
    cdef long long _first_snap_bytes

    cpdef begin_section(self, bint is_big_endian, list clocks)
    @cython.locals(index=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef add_interfaces(self)
    cdef _tabulate(self, Py_ssize_t room)
    @cython.locals(data="const unsigned char[::1]", is_big_endian=cython.bint, at=cython.Py_ssize_t,
        last=cython.Py_ssize_t, kind=cython.longlong, size=cython.longlong)
    cpdef Py_ssize_t scan(self, object buffer, Py_ssize_t start, Py_ssize_t end, ColumnMaker maker,
        Py_ssize_t most) except -1
    @cython.locals(is_big_endian=cython.bint, captured=cython.longlong,
        option_bytes=cython.longlong, dropped=cython.longlong, interface=cython.longlong,
        high=cython.longlong, low=cython.longlong, time_ns=cython.longlong, wire=cython.longlong,
        options_at=cython.longlong)
    cdef int _packet(self, object buffer, const unsigned char[::1] data, Py_ssize_t at,
        long long kind, long long size, ColumnMaker maker) except -1
    @cython.locals(wire=cython.longlong, captured=cython.longlong, link_type=cython.int)
    cdef int _simple(self, const unsigned char[::1] data, Py_ssize_t at, long long size,
        ColumnMaker maker) except -1
    @cython.locals(ticks=cython.longlong, time_ns=cython.longlong, exact=cython.longlong)
    cdef long long _time_ns(self, Py_ssize_t interface, long long high, long long low) except? -1
    @cython.locals(is_big_endian=cython.bint, code=cython.longlong, length=cython.longlong,
        high=cython.longlong, low=cython.longlong, _=cython.int)
    cdef int _read_options(self, object buffer, const unsigned char[::1] data, Py_ssize_t at,
        Py_ssize_t end, Py_ssize_t interface, long long dropped) except -1


cdef enum:
    NS_PER_US = 1000

    ETHERNET = 1
    COOKED = 276
    TAG_BYTES = 4
    TAG_AT = 12
    COOKED_BYTES = 20
    VLAN_PROTOCOL = 33024
    TAG_IS_VALID = 16
    PROTOCOL_IS_VALID = 64

    BLOCK_PACKETS_AT = 12
    BLOCK_FIRST_AT = 16
    PACKET_HEADER_BYTES = 48

    BPF_HEADER_BYTES = 18
    BPF_ALIGNMENT = 4


cdef class KernelScan:
    cdef int _link_type
    cdef long long _snap_bytes
    cdef bint _is_big_endian

    @cython.locals(data="unsigned char[::1]", is_big_endian=cython.bint, block=cython.Py_ssize_t,
        start=cython.Py_ssize_t, at=cython.Py_ssize_t, _=cython.longlong, seconds=cython.longlong,
        nanoseconds=cython.longlong)
    cpdef blocks(self, object buffer, Py_ssize_t block_bytes, Py_ssize_t blocks, ColumnMaker maker)
    @cython.locals(data="unsigned char[::1]", row=cython.Py_ssize_t, times="const long long[::1]",
        offsets="const long long[::1]", captureds="const long long[::1]",
        wires="const long long[::1]", statuses="const long long[::1]",
        controls="const long long[::1]", protocols="const long long[::1]",
        addresses="const long long[::1]")
    cpdef scan_columns(self, object buffer, object columns, ColumnMaker maker)
    @cython.locals(data="const unsigned char[::1]", is_big_endian=cython.bint, at=cython.Py_ssize_t,
        captured=cython.longlong, header_bytes=cython.longlong, time_ns=cython.longlong,
        snapped=cython.longlong, wire=cython.longlong, used=cython.longlong)
    cpdef bpf(self, object buffer, Py_ssize_t end, ColumnMaker maker)
    @cython.locals(added=cython.longlong, position=cython.Py_ssize_t, tag=cython.longlong,
        kept=cython.longlong)
    cdef int _add(self, unsigned char[::1] data, long long time_ns, Py_ssize_t at,
        long long captured, long long wire, long long status, long long control, long long protocol,
        Py_ssize_t address, ColumnMaker maker) except -1
    @cython.locals(index=cython.Py_ssize_t, byte_index=cython.Py_ssize_t)
    cdef int _put_cooked_header(self, unsigned char[::1] data, Py_ssize_t at,
        Py_ssize_t address) except -1
