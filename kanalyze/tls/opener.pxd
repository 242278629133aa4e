# The C types of opener.py.
cimport cython

from kanalyze.tls.record_cipher cimport Opened, RecordCipher
from kanalyze.tls.records cimport TlsRecord

cdef int EARLY


cdef class RecordOpener:
    cdef public object _epochs
    cdef public list _ciphers
    cdef public long long _number
    cdef public object _found
    cdef public long long _found_offset
    cdef public long long _work_left
    cdef public long long epoch
    cdef public long long uncertain
    cdef public long long missing
    cdef public long long first_missing
    cdef public object left_epoch

    @cython.locals(cipher=RecordCipher, opened=Opened, ciphers=list)
    cpdef Opened open(self, TlsRecord record)
    cpdef bint find(self, TlsRecord record, long long more_missing=*) except -1
    cdef list _current(self)
