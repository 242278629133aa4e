# The C types of batches.py.
cimport cython

cdef int VALID, MALFORMED, TOO_MANY_HEADERS, MAX_HEADERS, MAX_SHIFT, SCHEMA_HEAD_BYTES
cdef int BATCH_HEADER_BYTES, ENTRY_HEAD_BYTES, MAGIC_AT, CRC_FROM, CODEC, APPEND_TIME, TRANSACTIONAL
cdef int CONTROL, DELETE_HORIZON, SEQUENCE_BITS


cdef long long MIN_INT64, LARGEST_INT64, NO_TIMESTAMP


cdef class RecordCursor:
    cdef bytes _bytes
    cdef const unsigned char[::1] _data
    cdef Py_ssize_t _at, _end, _record_end
    cdef long long _remaining_records, _base_offset, _base_timestamp, _append_time
    cdef bint _is_append_time
    cdef int _status
    cdef readonly Py_ssize_t key_at, value_at, headers_at
    cdef readonly long long offset, timestamp_ms, key_bytes, value_bytes, header_count
    cdef readonly object problem

    @cython.locals(is_malformed=cython.bint)
    cpdef bint advance(self) except *
    cpdef record(self)
    cpdef key(self)
    cpdef value(self)
    cpdef tuple headers(self)
    cpdef long long key_schema_id(self) except? -7
    cpdef long long value_schema_id(self) except? -7
    cdef _part(self, Py_ssize_t at, long long size)
    @cython.locals(size=cython.longlong)
    cdef tuple _headers(self)
    @cython.locals(length=cython.longlong)
    cdef _read(self)
    @cython.locals(size=cython.longlong)
    cdef _pass_headers(self)
    cdef long long _size(self) except? -7
    @cython.locals(at=cython.Py_ssize_t, byte=cython.ulonglong, value=cython.ulonglong,
        shift=cython.int)
    cdef long long _varint(self) except? -7


cpdef long long schema_id(data) except? -7
@cython.locals(number=cython.longlong)
cdef long long _schema_id_at(const unsigned char[::1] data, Py_ssize_t at,
    long long size) except? -7
cpdef long long wrapped_sum(long long a, long long b) except? -7
cdef long long _wrapped(a, b) except? -7


cdef class RecordBatch:
    cdef object _read, _limits
    cdef bytes _data
    cdef Py_ssize_t _start, _end
    cdef int _attributes
    cdef long long _base_timestamp
    cdef object _append_time
    cdef readonly long long most_records, base_offset, batch_bytes
    cdef readonly int magic
    cdef readonly str codec
    cdef readonly bint crc_ok
    cdef readonly str timestamp_type
    cdef readonly object record_count, partition_leader_epoch, producer_id, producer_epoch
    cdef public object base_sequence
    cdef readonly object delete_horizon_ms
    cdef readonly bint is_transactional, is_control
    cdef readonly list problems

    cpdef begin(self, read, long long base_offset, long long batch_bytes, int magic, codec,
        bint crc_ok, timestamp_type, limits)
    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t)
    cpdef RecordCursor cursor(self)
    cpdef end(self, RecordCursor cursor)
    @cython.locals(passed=cython.longlong, first=cython.longlong)
    cpdef long long sequence(self, long long offset) except -2


@cython.locals(batch=RecordBatch, attributes=cython.int, is_append_time=cython.bint)
cpdef RecordBatch batch_of(bytes data, Py_ssize_t start, Py_ssize_t end, limits)


cdef class RecordSet:
    cdef bytes _data
    cdef object _limits
    cdef readonly list problems

    cdef RecordBatch _batch(self, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(magic=cython.int, length=cython.longlong, least=cython.longlong)
    cdef Py_ssize_t _end(self, Py_ssize_t at) except -1
