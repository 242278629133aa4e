# The C types of text_buffer.py.
cimport cython

cdef enum:
    ZERO = 0x30
    MINUS = 0x2D
    MAX_DIGITS = 20
    FEW_BYTES = 128

cdef long long MIN_PLAIN


cdef class TextBuffer:
    cdef unsigned char[::1] data
    cdef Py_ssize_t used

    @cython.locals(used=cython.Py_ssize_t)
    cpdef bytes drain(self)
    cdef int make_room(self, Py_ssize_t count) except -1
    cdef int put_byte(self, unsigned char byte) except -1
    @cython.locals(count=cython.Py_ssize_t, at=cython.Py_ssize_t, i=cython.Py_ssize_t)
    cdef int put(self, const unsigned char[::1] text) except -1
    @cython.locals(
        count=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
        i=cython.Py_ssize_t,
        view="const unsigned char[::1]",
    )
    cdef int put_bytes(self, bytes text) except -1
    @cython.locals(at=cython.Py_ssize_t, quotient=cython.longlong)
    cdef put_number(self, long long value)
    cdef _put_text(self, value)
