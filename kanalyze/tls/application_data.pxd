# The C types of application_data.py.
cimport cython

from kanalyze.tls.opener cimport RecordOpener
from kanalyze.tls.plaintext cimport PlaintextWriter
from kanalyze.tls.records cimport TlsRecord


cdef class ApplicationData:
    cdef public object _negotiation
    cdef public bint _from_start
    cdef public PlaintextWriter _writer
    cdef public list _early
    cdef public long long _missing_bytes
    cdef public bint _has_data
    cdef public long long _overhead
    cdef public long long _first_size
    cdef public bint _has_sizes
    cdef public long long early_bytes
    cdef public long long plaintext_bytes

    cpdef add(self, content, TlsRecord record, bint is_early)
    cpdef settle_early(self)
    @cython.locals(overhead=cython.longlong)
    cpdef note_opened(self, TlsRecord record, long long size)
    cpdef miss(self, long long size)
    @cython.locals(missing_bytes=cython.longlong)
    cpdef note_missing(self, RecordOpener opener, TlsRecord record)
    cdef _write(self, content, TlsRecord record)
