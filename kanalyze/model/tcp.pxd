# The C types of tcp.py.

cdef class RoundTrips:
    cdef public long long samples
    cdef public long long total_ns
    cdef long long _least_ns
    cdef long long _most_ns

    cpdef add(self, long long elapsed_ns)
