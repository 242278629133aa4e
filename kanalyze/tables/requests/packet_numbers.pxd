# The C types of packet_numbers.py.
cimport cython

from kanalyze.tables.columns.buffers cimport IntBuffer, WordBuffer


@cython.final
cdef class PacketNumbers:
    cdef object _locations
    cdef WordBuffer _capture
    cdef IntBuffer _requests
    cdef IntBuffer _responses

    cpdef number(self, Py_ssize_t count)

    @cython.locals(
        requests=IntBuffer,
        responses=IntBuffer,
        firsts="long long[::1]",
        shifts="long long[::1]",
        codes="long long[::1]",
        at=cython.Py_ssize_t,
        run=cython.Py_ssize_t,
        last=cython.Py_ssize_t,
        code=cython.longlong,
        none=cython.longlong,
    )
    cdef bint _number_runs(self, Py_ssize_t count, long long low, long long high) except -1

    @cython.locals(buffer=IntBuffer, at=cython.Py_ssize_t)
    cdef _number_each(self, Py_ssize_t count)
