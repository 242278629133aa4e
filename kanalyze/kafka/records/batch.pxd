# The C types of batch.py.
cimport cython

from kanalyze.kafka.records.cursor cimport RecordCursor

cdef enum:
    BATCH_HEADER_BYTES = 61
    ENTRY_HEAD_BYTES = 12
    CRC_FROM = 21

    CODEC = 0x07
    APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40

    SEQUENCE_BITS = 0x7FFFFFFF


cdef class RecordBatch:
    cdef object _read
    cdef object _limits
    cdef bytes _data
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef int _attributes
    cdef long long _base_timestamp
    cdef object _append_time
    cdef readonly long long most_records
    cdef readonly long long base_offset
    cdef readonly long long batch_bytes
    cdef readonly int magic
    cdef readonly str codec
    cdef readonly bint crc_ok
    cdef readonly str timestamp_type
    cdef readonly object record_count
    cdef readonly object partition_leader_epoch
    cdef readonly object producer_id
    cdef readonly object producer_epoch
    cdef public object base_sequence
    cdef readonly object delete_horizon_ms
    cdef readonly bint is_transactional
    cdef readonly bint is_control
    cdef readonly list problems

    cdef _set(
        self,
        long long base_offset,
        long long batch_bytes,
        int magic,
        codec,
        bint crc_ok,
        timestamp_type,
        limits,
    )
    @cython.locals(data=bytes, at=cython.Py_ssize_t, end=cython.Py_ssize_t, codec=cython.int)
    cpdef RecordCursor cursor(self)
    cpdef end(self, RecordCursor cursor)
    @cython.locals(passed=cython.longlong, first=cython.longlong)
    cpdef long long sequence(self, long long offset) except -2


@cython.locals(batch=RecordBatch, attributes=cython.int, is_append_time=cython.bint)
cpdef RecordBatch batch_of(bytes data, Py_ssize_t start, Py_ssize_t end, limits)
