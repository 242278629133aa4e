# The C types of streams.py.

cdef enum:
    NO_TIME = -1  # as in packets.py: a test compares them


cdef class Segments:
    cdef readonly object buffer
    cdef readonly object start
    cdef readonly object length
    cdef readonly object captured
    cdef readonly object time_ns
    cdef readonly object packet
    cdef const unsigned char[::1] data
    cdef const long long[::1] starts
    cdef const long long[::1] lengths
    cdef const long long[::1] captureds
    cdef const long long[::1] times
    cdef const long long[::1] packets

    cpdef view(self, Py_ssize_t begin, Py_ssize_t end)
