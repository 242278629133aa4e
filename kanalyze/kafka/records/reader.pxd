# The C types of reader.py.
cimport cython

from kanalyze.kafka.records.batch cimport RecordBatch

cdef enum:
    BATCH_HEADER_BYTES = 61
    ENTRY_HEAD_BYTES = 12
    MAGIC_AT = 16


cdef class RecordSet:
    cdef bytes _data
    cdef object _limits
    cdef readonly list problems

    cdef RecordBatch _batch(self, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(
        data=bytes,
        remaining_bytes=cython.Py_ssize_t,
        magic=cython.int,
        length=cython.longlong,
        least=cython.longlong,
    )
    cdef Py_ssize_t _end(self, Py_ssize_t at) except -1
