# The C types of protection.py.
cimport cython

from kanalyze.tls.record_cipher cimport Opened
from kanalyze.tls.opener cimport RecordOpener
from kanalyze.tls.records cimport TlsRecord

cdef int APPLICATION_DATA


cdef class Protection:
    cdef public int _direction
    cdef public bint _from_start
    cdef public object _negotiation
    cdef public object _late_starts
    cdef public long long _late_records
    cdef public long long _may_be_missing
    cdef public RecordOpener _prospect
    cdef public object _prospect_of
    cdef public bint is_sealed
    cdef public bint _is_first
    cdef public RecordOpener opener

    cpdef bint covers(self, TlsRecord record) except -1
    cpdef bint began_unseen(self, TlsRecord record) except -1
    @cython.locals(opened=Opened)
    cpdef Opened open(self, TlsRecord record)
