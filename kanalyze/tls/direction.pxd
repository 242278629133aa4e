# The C types of direction.py.
cimport cython

from kanalyze.tls.protection cimport Protection, RecordOpener
from kanalyze.tls.records cimport RecordCutter, TlsRecord

cdef int HEADER_BYTES


cdef int ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE_RECORD
cdef int APPLICATION, EARLY


cdef class RecordQueue:
    cdef public object _incoming
    cdef public TlsRecord _next
    cdef public object _waiting
    cdef public bint is_patient
    cdef public long long waiting_bytes

    cdef bint run(self, TlsDirection reader) except -1
    cdef end_step(self, TlsDirection reader)


cdef class PlaintextWriter:
    cdef public list _items
    cdef public long long _offset, _chunk_offset
    cdef public bytearray _data
    cdef public list _columns
    cdef public Py_ssize_t _count, _room
    cdef long long[::1] starts, lengths, times, packets

    @cython.locals(size=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cpdef add(self, content, TlsRecord record)
    @cython.locals(at=cython.Py_ssize_t)
    cdef _segment(self, long long start, long long size, long long time_ns, long long packet)
    cdef _drop_columns(self)
    cdef _make_room(self)


cdef class ApplicationData:
    cdef public object _negotiation
    cdef public bint _from_start
    cdef public PlaintextWriter _writer
    cdef public list _early
    cdef public long long _missing_bytes
    cdef public bint _has_data
    cdef public long long _overhead, _first_size
    cdef public bint _has_sizes
    cdef public long long early_bytes, plaintext_bytes

    cpdef add(self, content, TlsRecord record, bint is_early)
    cpdef settle_early(self)
    cpdef note_opened(self, TlsRecord record, long long size)
    cpdef miss(self, long long size)
    @cython.locals(missing_bytes=cython.longlong)
    cpdef note_missing(self, RecordOpener opener, TlsRecord record)
    cdef _write(self, content, TlsRecord record)


cdef class TlsDirection:
    cdef public long long _bytes
    cdef public RecordCutter _cutter
    cdef public ApplicationData _data
    cdef public bint _from_start
    cdef public long long _lost_bytes, _lost_before
    cdef public object _messages, _negotiation
    cdef public long long _opened
    cdef public Protection _protection
    cdef public RecordQueue _queue
    cdef public long long _records
    cdef public int _direction
    cdef public bint _owes_gap
    cdef public long long _unopened
    cdef public bint has_lost_keys

    cdef bint must_wait(self, TlsRecord record) except -1
    cdef take(self, item)
    cdef _read(self, TlsRecord record)
    cdef _read_sealed(self, TlsRecord record)
    cdef _read_content(self, int kind, content, TlsRecord record, bint is_sealed)
