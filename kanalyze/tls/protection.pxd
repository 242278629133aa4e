# The C types of protection.py.
cimport cython

from kanalyze.tls.records cimport TlsRecord

cdef int APPLICATION_DATA
cdef Py_ssize_t _FEW_BYTES, _PROTECTED_BYTES


cdef class RecordCipher:
    cdef readonly object overhead_bytes
    cdef readonly long long least_bytes
    cdef readonly bint tries_numbers

    cpdef tuple open(self, TlsRecord record, unsigned long long number)
    cpdef object number(self, TlsRecord record, object within)


cdef class _Aead13Cipher(RecordCipher):
    cdef object _decrypt, _invalid_tag, _iv

    cpdef tuple open(self, TlsRecord record, unsigned long long number)


cdef class _Gcm13Cipher(_Aead13Cipher):
    cdef object _encrypt
    cdef bytes _key

    cpdef object number(self, TlsRecord record, object within)


cdef class _Aead12Cipher(RecordCipher):
    cdef object _decrypt, _invalid_tag
    cdef Py_ssize_t _explicit_bytes
    cdef bytes _iv

    cpdef bytes nonce(self, bytes body, unsigned long long number)
    @cython.locals(length=cython.Py_ssize_t)
    cpdef tuple open(self, TlsRecord record, unsigned long long number)


cdef class _ImplicitNonceCipher(_Aead12Cipher):
    cdef object _iv_number

    cpdef bytes nonce(self, bytes body, unsigned long long number)


cdef class _ExplicitNonceCipher(_Aead12Cipher):
    cdef bytes _last_explicit
    cdef unsigned long long _last_number

    cpdef bytes nonce(self, bytes body, unsigned long long number)
    cpdef tuple open(self, TlsRecord record, unsigned long long number)
    cpdef object number(self, TlsRecord record, object within)


cdef class _CbcCipher(RecordCipher):
    cdef object _decrypt, _inner, _outer
    cdef Py_ssize_t _mac_bytes
    cdef bint _mac_last

    cpdef tuple open(self, TlsRecord record, unsigned long long number)
    cpdef object number(self, TlsRecord record, object within)
    @cython.locals(end=cython.Py_ssize_t, mac_bytes=cython.Py_ssize_t)
    cdef tuple _parts(self, TlsRecord record)
    cdef tuple _opened(self, TlsRecord record, tuple parts)
    @cython.locals(last=cython.int, end=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cdef bytes _content(self, bytes body)
    cdef bint _is_proven(self, TlsRecord record, tuple parts, unsigned long long number) except -1


@cython.locals(index=cython.int)
cdef bytearray _protected(unsigned long long number, bytes header, Py_ssize_t length)


cdef class RecordOpener:
    cdef readonly object epochs
    cdef public list _ciphers
    cdef public long long _number
    cdef public object _found
    cdef public long long _found_offset, _work_left, epoch, uncertain, missing, first_missing
    cdef public object left_epoch

    @cython.locals(cipher=RecordCipher)
    cpdef tuple open(self, TlsRecord record)
    cpdef bint find(self, TlsRecord record, long long more_missing=*) except -1
    cdef list _current(self)


cdef class Protection:
    cdef public int _direction
    cdef public bint _from_start
    cdef public object _negotiation, _late_starts
    cdef public long long _late_records, _may_be_missing
    cdef public RecordOpener _prospect
    cdef public object _prospect_of
    cdef public bint is_sealed, _is_first
    cdef public RecordOpener opener

    cpdef bint covers(self, TlsRecord record) except -1
    cpdef bint began_unseen(self, TlsRecord record) except -1
    cpdef tuple open(self, TlsRecord record)
