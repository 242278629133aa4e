# The C types of record_queue.py.
from kanalyze.tls.records cimport TlsRecord


cdef class RecordQueue:
    cdef public object _incoming
    cdef public TlsRecord _next
    cdef public object _waiting
    cdef public bint is_patient
    cdef public long long waiting_bytes

    cpdef bint run(self, take, must_wait) except -1
