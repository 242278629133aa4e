# The C types of record_cipher.py.
cimport cython

from kanalyze.tls.records cimport TlsRecord


@cython.final
cdef class Opened:
    cdef public int kind
    cdef public object content


@cython.locals(made=Opened)
cdef Opened opened_record(int kind, content)


cdef class RecordCipher:
    cdef readonly object overhead_bytes
    cdef readonly long long least_bytes
    cdef readonly bint tries_numbers

    cpdef Opened open(self, TlsRecord record, unsigned long long number)
    cpdef object number(self, TlsRecord record, object within)
