# The C types of buffers.py.
cimport cython


cdef class IntBuffer:
    cdef object numbers
    cdef object is_known
    cdef long long[::1] values
    cdef unsigned char[::1] valid

    cpdef make_room(self, Py_ssize_t size)
    cpdef int put(self, Py_ssize_t at, long long value) except -1
    cpdef int put_any(self, Py_ssize_t at, value) except -1
    cpdef object get(self, Py_ssize_t at)
    cpdef int change(self, Py_ssize_t at, value) except -1
    @cython.locals(at=cython.Py_ssize_t)
    cpdef int shift(self, Py_ssize_t count, long long shift) except -1
    @cython.locals(at=cython.Py_ssize_t, least=cython.longlong)
    cpdef long long least(self, Py_ssize_t count) except? -1
    @cython.locals(at=cython.Py_ssize_t, largest=cython.longlong)
    cpdef long long largest(self, Py_ssize_t count) except? -1
    cpdef drain(self, Py_ssize_t count)


cdef class WordBuffer:
    cdef readonly list words
    cdef dict codes_by_word
    cdef readonly Py_ssize_t characters
    cdef object numbers
    cdef int[::1] codes

    cpdef make_room(self, Py_ssize_t size)
    @cython.locals(new_code=cython.int)
    cpdef int code(self, word) except -2
    cpdef int put_code(self, Py_ssize_t at, int code) except -1
    cpdef int put(self, Py_ssize_t at, word) except -1
    @cython.locals(at=cython.Py_ssize_t)
    cpdef int fill(self, Py_ssize_t count, int code) except -1
    cpdef drain(self, Py_ssize_t count)
    cpdef forget(self)
