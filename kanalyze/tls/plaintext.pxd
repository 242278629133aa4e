# The C types of plaintext.py.
cimport cython

from kanalyze.tls.records cimport TlsRecord


cdef class PlaintextWriter:
    cdef public list _items
    cdef public long long _offset
    cdef public long long _chunk_offset
    cdef public bytearray _data
    cdef public list _starts
    cdef public list _lengths
    cdef public list _times
    cdef public list _packets

    @cython.locals(size=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cpdef add(self, content, TlsRecord record)
    cdef _segment(self, long long start, long long size, long long time_ns, long long packet)
    cdef _end_chunk(self)
