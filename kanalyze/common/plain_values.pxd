# The C types of plain_values.py.
cimport cython

cdef enum:
    NONE = 128
    FALSE = 129
    TRUE = 130
    NUMBER = 131
    NEGATIVE = 132
    BYTES = 133
    TEXT = 134
    TUPLE = 135
    SHORT_TUPLE = 192
    MAX_DEEP = 32
    MAX_SHIFT = 56


cdef class StateWriter:
    cdef readonly bytearray data

    @cython.locals(data=bytearray, number=cython.longlong, count=cython.Py_ssize_t)
    cpdef write(self, value, int depth)
    cdef _write_sized(self, value)
    @cython.locals(data=bytearray)
    cdef _head(self, int head, long long number)


cdef class StateReader:
    cdef bytes source
    cdef const unsigned char[::1] data
    cdef readonly Py_ssize_t at
    cdef Py_ssize_t end

    @cython.locals(head=cython.int)
    cpdef read(self, int depth)
    cdef int _byte(self) except -1
    @cython.locals(number=cython.longlong, bits=cython.longlong, shift=cython.int, byte=cython.int)
    cdef long long _number(self) except -1
    @cython.locals(size=cython.longlong, begin=cython.Py_ssize_t)
    cdef bytes _bytes(self)
    @cython.locals(values=list, _i=cython.longlong)
    cdef tuple _tuple(self, long long count, int depth)


@cython.locals(index=cython.Py_ssize_t)
cpdef tuple fields(state, str kinds, tuple defaults=*)
@cython.locals(index=cython.Py_ssize_t)
cpdef tuple items(state, str kinds)
cpdef bint is_of_kind(value, str letter) except -1
