# The C types of ciphers.py.
cimport cython

from kanalyze.common.byte_copies cimport copy_from_array
from kanalyze.tls.record_cipher cimport Opened, RecordCipher, opened_record
from kanalyze.tls.records cimport TlsRecord

cdef enum:
    APPLICATION = 23
    FEW_BYTES = 1024

cdef Py_ssize_t _PROTECTED_BYTES, _NONCE_BYTES


cdef class _Aead13Cipher(RecordCipher):
    cdef object _decrypt
    cdef object _iv
    cdef unsigned long long _iv_number
    cdef bytearray _nonce

    @cython.locals(inner=bytes, nonce=bytes, end=cython.Py_ssize_t)
    cpdef Opened open(self, TlsRecord record, unsigned long long number)


cdef class _Gcm13Cipher(_Aead13Cipher):
    cdef object _encrypt
    cdef bytes _key

    cpdef object number(self, TlsRecord record, object within)


cdef class _Aead12Cipher(RecordCipher):
    cdef object _decrypt
    cdef Py_ssize_t _explicit_bytes
    cdef bytes _iv
    cdef bytearray _protected

    cpdef bytes nonce(self, bytes body, unsigned long long number)
    @cython.locals(
        body=bytes, protected=bytes, length=cython.Py_ssize_t, begin=cython.Py_ssize_t
    )
    cpdef Opened open(self, TlsRecord record, unsigned long long number)


cdef class _ImplicitNonceCipher(_Aead12Cipher):
    cdef object _iv_number

    cpdef bytes nonce(self, bytes body, unsigned long long number)


cdef class _ExplicitNonceCipher(_Aead12Cipher):
    cdef bytes _last_explicit
    cdef unsigned long long _last_number

    cpdef bytes nonce(self, bytes body, unsigned long long number)
    cpdef Opened open(self, TlsRecord record, unsigned long long number)
    cpdef object number(self, TlsRecord record, object within)


cdef class _CbcCipher(RecordCipher):
    cdef object _decrypt
    cdef object _inner
    cdef object _outer
    cdef Py_ssize_t _mac_bytes
    cdef bint _mac_last
    cdef bytearray _protected

    cpdef Opened open(self, TlsRecord record, unsigned long long number)
    cpdef object number(self, TlsRecord record, object within)
    @cython.locals(body=bytes, content=bytes, end=cython.Py_ssize_t, mac_bytes=cython.Py_ssize_t)
    cdef tuple _parts(self, TlsRecord record)
    cdef Opened _opened(self, TlsRecord record, tuple parts)
    @cython.locals(
        plaintext=bytes,
        last=cython.int,
        end=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
    )
    cdef bytes _content(self, bytes body)
    @cython.locals(data=bytes, mac=bytes)
    cdef bint _is_proven(self, TlsRecord record, tuple parts, unsigned long long number) except -1


cdef int _protect(
    bytearray protected, unsigned long long number, bytes header, Py_ssize_t length
) except -1
@cython.locals(index=cython.int)
cdef int _write_number(bytearray target, Py_ssize_t at, unsigned long long number) except -1
