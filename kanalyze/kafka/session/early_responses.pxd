# The C types of early_responses.py.
cimport cython


@cython.final
cdef class EarlyResponses:
    cdef public list _responses
    cdef readonly long long buffered_bytes

    cpdef bint has_any(self) except -1
