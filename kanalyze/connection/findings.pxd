# The C types of findings.py.
from kanalyze.protocol.frame cimport Frame


cdef class Findings:
    cdef public long long decoded_bytes
    cdef public long long undecoded_bytes
    cdef public object _tcp
    cdef public list _anomalies
    cdef public list _tokens
    cdef public tuple unread
    cdef public list _begun

    cpdef take(self)
    cpdef take_tokens(self)
    cpdef losses(self, cutter, int side)
    cpdef show_ended(self, Frame frame, int side)
