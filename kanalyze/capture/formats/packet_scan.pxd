# The C types of packet_scan.py.
cimport cython

from kanalyze.model.streams cimport NO_TIME

cdef int FIRST_ROOM, NS_PER_S, MAX_RECORD_BYTES, STANDARD_SNAP_BYTES, LIKELY_BEFORE_S
cdef int LIKELY_AFTER_S, INTERFACE, OBSOLETE_PACKET, SIMPLE_PACKET, NAMES, STATISTICS
cdef int ENHANCED_PACKET, SECRETS, SECTION, MIN_BLOCK_BYTES, PACKET_OVERHEAD_BYTES
cdef int SIMPLE_OVERHEAD_BYTES, PACKET_AT, SIMPLE_PACKET_AT, MIN_OPTION_BYTES, MAX_OPTIONS, COMMENT
cdef int DROP_COUNT, UNKNOWN_DROPS, MAX_HIGH_TICKS, END, FULL, AT_SECTION, AT_BLOCK, SHORT, WRONG
cdef int NS_PER_US, ETHERNET, COOKED, TAG_BYTES, TAG_AT, COOKED_BYTES, VLAN_PROTOCOL, TAG_IS_VALID
cdef int PROTOCOL_IS_VALID, BLOCK_PACKETS_AT, BLOCK_FIRST_AT, PACKET_HEADER_BYTES, BPF_HEADER_BYTES
cdef int BPF_ALIGNMENT
cdef long long LATE_S


cdef class ColumnMaker:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room
    cdef object _time_ns, _offset, _captured, _wire, _link_type
    cdef long long[::1] _times, _offsets, _captureds, _wires
    cdef int[::1] _link_types

    @cython.locals(at=cython.Py_ssize_t)
    cpdef int add(self, long long time_ns, long long offset, long long captured, long long wire,
        int link_type) except -1
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

    @cython.locals(data="const unsigned char[::1]", header_bytes=cython.Py_ssize_t,
        captured_at=cython.Py_ssize_t, wire_at=cython.Py_ssize_t, at=cython.Py_ssize_t,
        last=cython.Py_ssize_t, captured=cython.longlong, packet=cython.Py_ssize_t,
        seconds=cython.longlong, time_ns=cython.longlong, is_odd=cython.bint)
    cpdef Py_ssize_t scan(self, object buffer, Py_ssize_t start, Py_ssize_t end, ColumnMaker maker,
        Py_ssize_t most) except -1
    cpdef long long captured_bytes(self, object buffer, Py_ssize_t at) except -1
    @cython.locals(fraction=cython.longlong)
    cpdef long long time_ns(self, object buffer, Py_ssize_t at) except? -1
    @cython.locals(data="const unsigned char[::1]", header_bytes=cython.Py_ssize_t,
        captured_at=cython.Py_ssize_t, wire_at=cython.Py_ssize_t, at=cython.Py_ssize_t,
        captured=cython.longlong)
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

    @cython.locals(index=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef add_interfaces(self)
    cdef _tabulate(self, Py_ssize_t room)
    @cython.locals(data="const unsigned char[::1]", at=cython.Py_ssize_t, size=cython.longlong)
    cpdef Py_ssize_t scan(self, object buffer, Py_ssize_t start, Py_ssize_t end, ColumnMaker maker,
        Py_ssize_t most) except -1
    @cython.locals(captured=cython.longlong, option_bytes=cython.longlong,
        options_at=cython.longlong)
    cdef int _packet(self, object buffer, const unsigned char[::1] data, Py_ssize_t at,
        long long kind, long long size, ColumnMaker maker) except -1
    cdef int _simple(self, const unsigned char[::1] data, Py_ssize_t at, long long size,
        ColumnMaker maker) except -1
    @cython.locals(ticks=cython.longlong, time_ns=cython.longlong, exact=cython.longlong)
    cdef long long _time_ns(self, Py_ssize_t interface, long long high, long long low) except? -1
    @cython.locals(length=cython.longlong, high=cython.longlong, low=cython.longlong)
    cdef int _read_options(self, object buffer, const unsigned char[::1] data, Py_ssize_t at,
        Py_ssize_t end, Py_ssize_t interface, long long dropped) except -1


cdef class KernelScan:
    cdef int _link_type
    cdef long long _snap_bytes
    cdef bint _is_big_endian

    @cython.locals(data="unsigned char[::1]", block=cython.Py_ssize_t, start=cython.Py_ssize_t,
        at=cython.Py_ssize_t, seconds=cython.longlong, nanoseconds=cython.longlong)
    cpdef blocks(self, object buffer, Py_ssize_t block_bytes, Py_ssize_t blocks, ColumnMaker maker)
    @cython.locals(data="unsigned char[::1]", times="const long long[::1]",
        offsets="const long long[::1]", captureds="const long long[::1]",
        wires="const long long[::1]", statuses="const long long[::1]",
        controls="const long long[::1]", protocols="const long long[::1]",
        addresses="const long long[::1]")
    cpdef scan_columns(self, object buffer, object columns, ColumnMaker maker)
    @cython.locals(data="const unsigned char[::1]", at=cython.Py_ssize_t, captured=cython.longlong,
        header_bytes=cython.longlong, snapped=cython.longlong, used=cython.longlong)
    cpdef bpf(self, object buffer, Py_ssize_t end, ColumnMaker maker)
    @cython.locals(added=cython.longlong, position=cython.Py_ssize_t, tag=cython.longlong)
    cdef int _add(self, unsigned char[::1] data, long long time_ns, Py_ssize_t at,
        long long captured, long long wire, long long status, long long control, long long protocol,
        Py_ssize_t address, ColumnMaker maker) except -1
    @cython.locals(index=cython.Py_ssize_t, byte_index=cython.Py_ssize_t)
    cdef int _put_cooked_header(self, unsigned char[::1] data, Py_ssize_t at,
        Py_ssize_t address) except -1
