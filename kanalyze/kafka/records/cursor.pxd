# The C types of cursor.py.
cimport cython

cdef enum:
    VALID = 0
    MALFORMED = 1
    TOO_MANY_HEADERS = 2

    MAX_HEADERS = 65536
    MAX_SHIFT = 63
    SCHEMA_HEAD_BYTES = 5

cdef long long MIN_INT64, LARGEST_INT64, NO_TIMESTAMP


cdef class RecordCursor:
    cdef bytes _bytes
    cdef const unsigned char[::1] _data
    cdef Py_ssize_t _at
    cdef Py_ssize_t _end
    cdef Py_ssize_t _record_end
    cdef long long _remaining_records
    cdef long long _base_offset
    cdef long long _base_timestamp
    cdef long long _append_time
    cdef bint _is_append_time
    cdef int _status
    cdef Py_ssize_t _key_at
    cdef Py_ssize_t _value_at
    cdef Py_ssize_t _headers_at
    cdef readonly long long offset
    cdef readonly long long timestamp_ms
    cdef readonly long long key_bytes
    cdef readonly long long value_bytes
    cdef readonly long long header_count
    cdef readonly object problem

    @cython.locals(is_malformed=cython.bint)
    cpdef bint advance(self) except *
    cpdef record(self)
    cpdef key(self)
    cpdef tuple headers(self)
    cpdef long long key_schema_id(self) except? -7
    cpdef long long value_schema_id(self) except? -7
    cdef _part(self, Py_ssize_t at, long long size)
    @cython.locals(at=cython.Py_ssize_t, size=cython.longlong)
    cdef tuple _headers(self)
    @cython.locals(length=cython.longlong, timestamp=cython.longlong, offset=cython.longlong)
    cdef _read(self)
    @cython.locals(count=cython.longlong, size=cython.longlong, _i=cython.longlong)
    cdef _pass_headers(self)
    @cython.locals(size=cython.longlong)
    cdef long long _size(self) except? -7
    @cython.locals(
        at=cython.Py_ssize_t,
        byte=cython.ulonglong,
        value=cython.ulonglong,
        shift=cython.int,
    )
    cdef long long _varint(self) except? -7


cpdef long long schema_id(data) except? -7
@cython.locals(number=cython.longlong)
cdef long long _schema_id_at(
    const unsigned char[::1] data, Py_ssize_t at, long long size
) except? -7
cdef long long _sum(long long a, long long b) except? -7
cdef long long _wrapped(a, b) except? -7
