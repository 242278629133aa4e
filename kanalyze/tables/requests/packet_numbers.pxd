# The C types of packet_numbers.py.
cimport cython

from kanalyze.tables.columns.buffers cimport IntBuffer, WordBuffer


@cython.final
cdef class PacketNumbers:
    cdef object _locate
    cdef bint _are_all_numbered
    cdef WordBuffer _capture
    cdef IntBuffer _requests
    cdef IntBuffer _responses

    @cython.locals(buffer=IntBuffer, at=cython.Py_ssize_t)
    cpdef number(self, Py_ssize_t count)
