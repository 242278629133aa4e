# The C types of kernel_packets.py. The numbers are those that it has uncompiled:
# tests/capture/formats/test_packet_scan.py.
cimport cython
from kanalyze.capture.formats.packet_scan cimport ColumnMaker, u16, u32

cdef enum:
    NS_PER_S = 1000000000
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

    @cython.locals(
        data="unsigned char[::1]", is_big_endian=cython.bint, block=cython.Py_ssize_t,
        start=cython.Py_ssize_t, at=cython.Py_ssize_t, _=cython.longlong,
        seconds=cython.longlong, nanoseconds=cython.longlong,
    )
    cpdef blocks(
        self, object buffer, Py_ssize_t block_bytes, Py_ssize_t blocks, ColumnMaker maker
    )
    @cython.locals(
        data="unsigned char[::1]", row=cython.Py_ssize_t, times="const long long[::1]",
        offsets="const long long[::1]", captureds="const long long[::1]",
        wires="const long long[::1]", statuses="const long long[::1]",
        controls="const long long[::1]", protocols="const long long[::1]",
        addresses="const long long[::1]",
    )
    cpdef scan_columns(self, object buffer, object columns, ColumnMaker maker)
    @cython.locals(
        data="const unsigned char[::1]", is_big_endian=cython.bint, at=cython.Py_ssize_t,
        captured=cython.longlong, header_bytes=cython.longlong, time_ns=cython.longlong,
        snapped=cython.longlong, wire=cython.longlong, used=cython.longlong,
    )
    cpdef bpf(self, object buffer, Py_ssize_t end, ColumnMaker maker)
    @cython.locals(
        added=cython.longlong, position=cython.Py_ssize_t, tag=cython.longlong,
        kept=cython.longlong,
    )
    cdef int _add(
        self, unsigned char[::1] data, long long time_ns, Py_ssize_t at, long long captured,
        long long wire, long long status, long long control, long long protocol,
        Py_ssize_t address, ColumnMaker maker
    ) except -1
    @cython.locals(index=cython.Py_ssize_t, byte_index=cython.Py_ssize_t)
    cdef int _put_cooked_header(
        self, unsigned char[::1] data, Py_ssize_t at, Py_ssize_t address
    ) except -1
