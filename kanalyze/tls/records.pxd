# The C types of records.py.
cimport cython

from kanalyze.model.streams cimport Segments

cdef int HEADER_BYTES


cdef long long _RUN_BYTES
cdef int ALERT, APPLICATION_DATA, HEADER_BYTES


cdef bytes copy_bytes(const unsigned char[::1] data, Py_ssize_t begin, Py_ssize_t end)
@cython.locals(first="const char *")
cdef bytes copy_from_array(bytearray array, Py_ssize_t begin, Py_ssize_t end)


@cython.final
cdef class TlsRecord:
    cdef public int kind
    cdef public bytes header, body
    cdef public long long stream_offset, first_time_ns, first_packet, time_ns, packet


@cython.locals(made=TlsRecord)
cdef TlsRecord _new_record(bytes header, bytes body, long long stream_offset)


cdef class RecordCutter:
    cdef public object _prove
    cdef public bytearray _buffer
    cdef public long long _offset, _need
    cdef public bint _is_in_sync
    cdef public long long _search_from
    cdef public object _lost_from
    cdef public long long _skip
    cdef public TlsRecord _cut
    cdef public list _arrivals
    cdef public long long _first_ns, _first_packet, _latest_ns, _latest_packet

    @cython.locals(captured=cython.longlong, begin=cython.longlong)
    cdef long long _cut_segments(self, Segments segments, long long index, long long last,
        list records) except -1
    @cython.locals(size=cython.longlong, body_bytes=cython.int)
    cdef _cut_segment(self, Segments segments, long long index, long long at, long long end,
        list records)
    @cython.locals(at=cython.longlong, available=cython.longlong, size=cython.longlong,
        body_bytes=cython.int)
    cdef _cut_buffer(self, list records)
    cdef _lose_sync(self)
    @cython.locals(offset=cython.longlong)
    cdef TlsRecord _record(self, long long at, long long size)
    cdef tuple _arrival(self, long long offset)
    cdef _drop(self, long long count)


cdef class RecordHeaders:
    cdef public long long records, bytes
    cdef public object _head
    cdef public long long _left, _size, _begin_ns, _packet

    cpdef list feed(self, list items)
    @cython.locals(captured=cython.longlong, start=cython.longlong)
    cdef _feed_segments(self, Segments segments, long long first, long long last, list records)
    @cython.locals(at=cython.longlong)
    cdef _step(self, data, long long time_ns, list records)
    @cython.locals(kind=cython.int)
    cdef _end(self, long long time_ns, list records)
    cdef _miss(self, long long length, long long time_ns, list records)
