# The C types of direction.py.
cimport cython

from kanalyze.tls.application_data cimport ApplicationData
from kanalyze.tls.record_cipher cimport Opened
from kanalyze.tls.opener cimport RecordOpener
from kanalyze.tls.protection cimport Protection
from kanalyze.tls.record_queue cimport RecordQueue
from kanalyze.tls.records cimport RecordCutter, TlsRecord

cdef enum:
    HEADER = 5

cdef int ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE_RECORD
cdef int APPLICATION, EARLY


cdef class TlsDirection:
    cdef public list _alerts
    cdef public long long _bytes
    cdef public RecordCutter _cutter
    cdef public ApplicationData _data
    cdef public bint _from_start
    cdef public long long _lost_bytes
    cdef public long long _lost_before
    cdef public object _messages
    cdef public object _negotiation
    cdef public long long _opened
    cdef public Protection _protection
    cdef public RecordQueue _queue
    cdef public long long _records
    cdef public int _direction
    cdef public bint _owes_gap
    cdef public long long _unopened
    cdef public bint has_lost_keys

    cpdef bint _must_wait(self, TlsRecord record) except -1
    cpdef _take(self, item)
    cdef _read(self, TlsRecord record)
    @cython.locals(opened=Opened, opener=RecordOpener)
    cdef _read_sealed(self, TlsRecord record)
    @cython.locals(opener=RecordOpener)
    cdef _read_content(self, int kind, content, TlsRecord record, bint is_sealed)
