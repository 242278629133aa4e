# The C types of buffers.py.
cimport cython

from kanalyze.kafka.codec.machine cimport cells_from, texts_from

cdef enum:
    FAILED = -2  # a literal in a final class becomes a wrong literal of C (Cython 3.3.1)


@cython.final
cdef class IntBuffer:
    cdef object numbers, is_known
    cdef long long[::1] values
    cdef unsigned char[::1] valid
    cdef long long* _first_value
    cdef unsigned char* _first_valid
    cdef Py_ssize_t _room

    cdef _keep(self, numbers, is_known)
    cpdef make_room(self, Py_ssize_t size)
    cpdef int put(self, Py_ssize_t at, long long value) except -1
    cpdef int put_any(self, Py_ssize_t at, value) except -1
    cpdef object get(self, Py_ssize_t at)
    cpdef int change(self, Py_ssize_t at, value) except -1
    cpdef int shift(self, Py_ssize_t count, long long shift) except -1
    @cython.locals(least=cython.longlong)
    cpdef long long least(self, Py_ssize_t count) except? FAILED
    cpdef long long largest(self, Py_ssize_t count) except? FAILED


@cython.final
cdef class WordBuffer:
    cdef readonly list words
    cdef dict codes_by_word
    cdef readonly Py_ssize_t characters
    cdef object numbers
    cdef int[::1] codes
    cdef object _last_word
    cdef int _last_code

    cpdef make_room(self, Py_ssize_t size)
    cpdef int code(self, word) except -2
    @cython.locals(new_code=cython.int)
    cdef int _code_of(self, word) except -2
    cpdef int put_code(self, Py_ssize_t at, int code) except -1
    cpdef int put(self, Py_ssize_t at, word) except -1
    cpdef int fill(self, Py_ssize_t count, int code) except -1


@cython.locals(out="unsigned char[::1]")
cpdef picked_bytes(const unsigned char[::1] values, const long long[::1] numbers)
@cython.locals(count=cython.Py_ssize_t, ends="long long[::1]", out="long long[::1]",
    total=cython.longlong, n=cython.longlong, item=cython.longlong, at=cython.longlong,
    i=cython.Py_ssize_t)
cpdef items_of_lists(const long long[::1] offsets, const long long[::1] numbers)
@cython.locals(count=cython.Py_ssize_t, out="int[::1]", code=cython.int, i=cython.Py_ssize_t)
cpdef recoded(const int[::1] codes, const int[::1] new_codes)
@cython.locals(count=cython.Py_ssize_t, number_of="int[::1]", out="int[::1]", old="int[::1]",
    used=cython.int, code=cython.int, i=cython.Py_ssize_t)
cpdef first_places(const int[::1] codes, Py_ssize_t words)

@cython.locals(count=cython.Py_ssize_t, out="int[::1]", value=cython.longlong, i=cython.Py_ssize_t)
cpdef narrowed_ints(const long long[::1] values)
@cython.locals(count=cython.Py_ssize_t, out="short[::1]", value=cython.longlong,
    i=cython.Py_ssize_t)
cpdef narrowed_shorts(const long long[::1] values)
@cython.locals(count=cython.Py_ssize_t, out="unsigned char[::1]", known=cython.Py_ssize_t,
    at=cython.Py_ssize_t, first=cython.Py_ssize_t, byte=cython.int, bit=cython.int,
    i=cython.Py_ssize_t)
cpdef bits(const unsigned char[::1] flags)
@cython.locals(count=cython.Py_ssize_t, out="unsigned char[::1]", i=cython.Py_ssize_t)
cpdef bits_of_longs(const long long[::1] values)
@cython.locals(count=cython.Py_ssize_t, out="unsigned char[::1]", nulls=cython.Py_ssize_t,
    at=cython.Py_ssize_t, first=cython.Py_ssize_t, byte=cython.int, bit=cython.int,
    i=cython.Py_ssize_t)
cpdef bits_of_codes(const int[::1] codes)

@cython.locals(count=cython.Py_ssize_t, out="long long[::1]", total=cython.longlong,
    i=cython.Py_ssize_t)
cpdef sums_up_to(const long long[::1] values)
@cython.locals(out="long long[::1]")
cpdef add_word_sizes(sizes, const int[::1] codes, const long long[::1] word_sizes)
@cython.locals(out="long long[::1]", i=cython.Py_ssize_t)
cpdef add_list_sizes(sizes, const long long[::1] offsets, const long long[::1] up_to)
