# The C types of streams.py.

cdef enum:
    NO_TIME = -1  # as in packets.py: a test compares them


cdef class Segments:
    cdef readonly object buffer, start, length, captured, time_ns, packet
    cdef const unsigned char[::1] data
    cdef const long long[::1] starts, lengths, captureds, times, packets

    cpdef view(self, Py_ssize_t begin, Py_ssize_t end)
