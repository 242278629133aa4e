# The C types of messages.py, and the constants of plans.py, which
# tests/anonymization/test_messages.py compares.
cimport cython

cdef enum:
    FIXED = 0
    SIZED = 1
    ARRAY = 2
    FIXED_ARRAY = 3
    NULLABLE = 5
    TAGS = 6
    ID = 7
    SHORT = 0
    WIDE = 1
    COMPACT = 2

# In a final class, Cython generates wrong code for a number after "except"; a name works.
cdef enum:
    FAILED = -2


@cython.final
cdef class _Walk:
    cdef object _anonymizer
    cdef bytes _data
    cdef object _holes
    cdef long long _first_hole
    cdef object _forwarded
    cdef list _parts
    cdef long long _copied
    cdef long long _at
    cdef public list records
    cdef public object inner

    cdef _pass(self, long long size)
    cdef _put(self, content, long long size)
    cdef _flush(self)
    cdef _need(self, long long size)
    @cython.locals(data=bytes, at=cython.longlong, length=cython.longlong, byte=cython.int)
    cdef long long _length(self, int form) except? FAILED
    @cython.locals(value=cython.longlong, byte=cython.longlong, shift=cython.int)
    cdef long long _unsigned(self) except? FAILED
    @cython.locals(at=cython.longlong)
    cdef _content(self, long long size, rule)
    @cython.locals(code=cython.int, size=cython.longlong, count=cython.longlong, step=tuple, _=cython.longlong)
    cdef _walk(self, tuple steps)
    cdef _rare(self, int code, tuple step)
    @cython.locals(count=cython.longlong)
    cdef long long _count(self, int form) except? FAILED
    @cython.locals(marker=cython.int)
    cdef _marker(self)
    @cython.locals(tag=cython.longlong, size=cython.longlong, end=cython.longlong, _=cython.longlong)
    cdef _tags(self, dict steps_of_tag)
