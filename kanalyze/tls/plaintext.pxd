# The C types of plaintext.py.
cimport cython

from kanalyze.tls.records cimport TlsRecord


cdef class PlaintextWriter:
    cdef public list _items
    cdef public long long _offset
    cdef public long long _chunk_offset
    cdef public bytearray _data
    cdef public list _columns
    cdef public Py_ssize_t _count
    cdef public Py_ssize_t _room
    cdef long long[::1] starts
    cdef long long[::1] lengths
    cdef long long[::1] times
    cdef long long[::1] packets

    @cython.locals(size=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cpdef add(self, content, TlsRecord record)
    @cython.locals(at=cython.Py_ssize_t)
    cdef _segment(self, long long start, long long size, long long time_ns, long long packet)
    cdef _make_room(self)
