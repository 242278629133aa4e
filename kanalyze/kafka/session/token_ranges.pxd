# The C types of token_ranges.py.
cimport cython

from kanalyze.kafka.framing.frame cimport Frame


@cython.final
cdef class TokenRanges:
    cdef public object _tcp
    cdef public list _partial_offsets
    cdef readonly bint has_partial

    cpdef bint was_partial(self, Frame frame, int direction) except -1
