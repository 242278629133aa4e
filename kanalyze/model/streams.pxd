# The C types of streams.py.
cimport cython

from kanalyze.model.tcp cimport TcpConnection

cdef enum:
    NO_TIME = -1  # as in packets.py: a test compares them


cdef class Segments:
    cdef readonly object buffer, start, length, captured, time_ns, packet
    cdef const unsigned char[::1] data
    cdef const long long[::1] starts, lengths, captureds, times, packets

    cpdef view(self, Py_ssize_t begin, Py_ssize_t end)


@cython.final
cdef class StreamUpdate:
    cdef public TcpConnection connection
    cdef public tuple items
    cdef public bint closed
    cdef public object closed_packet


cpdef chunk_of(long long stream_offset, Segments segments, long long first, long long last)
