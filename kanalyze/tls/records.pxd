# The C types of records.py.
cimport cython

from kanalyze.common.byte_copies cimport append, copy_bytes, copy_from_array
from kanalyze.model.streams cimport Segments

cdef enum:
    HEADER = 5

cdef long long _RUN_BYTES


@cython.final
cdef class TlsRecord:
    cdef public int kind
    cdef public bytes header
    cdef public bytes body
    cdef public long long stream_offset
    cdef public long long first_time_ns
    cdef public long long first_packet
    cdef public long long time_ns
    cdef public long long packet


@cython.locals(made=TlsRecord)
cdef TlsRecord _new_record(bytes header, bytes body, long long stream_offset)


cdef class RecordCutter:
    cdef public object _prove
    cdef public bytearray _buffer
    cdef public long long _offset
    cdef public long long _need
    cdef public bint _is_in_sync
    cdef public long long _search_from
    cdef public object _lost_from
    cdef public long long _skip
    cdef public TlsRecord _cut
    cdef public list _arrivals
    cdef public long long _first_ns
    cdef public long long _first_packet
    cdef public long long _latest_ns
    cdef public long long _latest_packet

    @cython.locals(captured=cython.longlong, begin=cython.longlong, most=cython.longlong)
    cdef long long _cut_segments(
        self, Segments segments, long long index, long long last, list records
    ) except -1
    @cython.locals(
        data="const unsigned char[::1]",
        time_ns=cython.longlong,
        packet=cython.longlong,
        size=cython.longlong,
        body_bytes=cython.int,
        record=TlsRecord,
    )
    cdef _cut_segment(
        self, Segments segments, long long index, long long at, long long end, list records
    )
    @cython.locals(
        buffer=bytearray,
        at=cython.longlong,
        available=cython.longlong,
        size=cython.longlong,
        body_bytes=cython.int,
    )
    cdef _cut_buffer(self, list records)
    cdef _lose_sync(self)
    @cython.locals(made=TlsRecord, offset=cython.longlong)
    cdef TlsRecord _record(self, long long at, long long size)
    cdef tuple _arrival(self, long long offset)
    cdef _drop(self, long long count)
