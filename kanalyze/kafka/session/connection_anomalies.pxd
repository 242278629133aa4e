# The C types of findings.py.
cimport cython

from kanalyze.kafka.framing.frame cimport Frame


@cython.final
cdef class Findings:
    cdef public long long decoded_bytes
    cdef public long long undecoded_bytes
    cdef public object _tcp
    cdef public list _anomalies
    cdef public list _tokens
    cdef public tuple unread
    cdef public list _begun
    cdef readonly bint has_begun
    cdef readonly bint has_unread

    cpdef take(self)
    cpdef take_tokens(self)
    cpdef losses(self, cutter, int side)
    cpdef show_ended(self, Frame frame, int side)
