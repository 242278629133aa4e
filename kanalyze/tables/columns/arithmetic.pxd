# The C types of arithmetic.py.
cimport cython

@cython.locals(count=cython.Py_ssize_t, out="unsigned char[::1]", i=cython.Py_ssize_t)
cpdef picked_bytes(const unsigned char[::1] values, const long long[::1] numbers)
@cython.locals(
    count=cython.Py_ssize_t,
    ends="long long[::1]",
    out="long long[::1]",
    total=cython.longlong,
    n=cython.longlong,
    item=cython.longlong,
    at=cython.longlong,
    i=cython.Py_ssize_t,
)
cpdef items_of_lists(const long long[::1] offsets, const long long[::1] numbers)
@cython.locals(count=cython.Py_ssize_t, out="int[::1]", code=cython.int, i=cython.Py_ssize_t)
cpdef recoded(const int[::1] codes, const int[::1] new_codes)
@cython.locals(
    count=cython.Py_ssize_t,
    number_of="int[::1]",
    out="int[::1]",
    old="int[::1]",
    used=cython.int,
    code=cython.int,
    i=cython.Py_ssize_t,
)
cpdef first_places(const int[::1] codes, Py_ssize_t words)

@cython.locals(
    count=cython.Py_ssize_t, out="int[::1]", value=cython.longlong, i=cython.Py_ssize_t
)
cpdef narrowed_ints(const long long[::1] values)
@cython.locals(
    count=cython.Py_ssize_t, out="short[::1]", value=cython.longlong, i=cython.Py_ssize_t
)
cpdef narrowed_shorts(const long long[::1] values)
@cython.locals(count=cython.Py_ssize_t, out="unsigned char[::1]", i=cython.Py_ssize_t)
cpdef bits(const unsigned char[::1] flags)
@cython.locals(count=cython.Py_ssize_t, out="unsigned char[::1]", i=cython.Py_ssize_t)
cpdef bits_of_longs(const long long[::1] values)
@cython.locals(
    count=cython.Py_ssize_t,
    out="unsigned char[::1]",
    nulls=cython.Py_ssize_t,
    i=cython.Py_ssize_t,
)
cpdef bits_of_codes(const int[::1] codes)

@cython.locals(count=cython.Py_ssize_t, out="long long[::1]", i=cython.Py_ssize_t)
cpdef differences(const long long[::1] offsets)
@cython.locals(
    count=cython.Py_ssize_t, out="long long[::1]", total=cython.longlong, i=cython.Py_ssize_t
)
cpdef sums_up_to(const long long[::1] values)
@cython.locals(out="long long[::1]", code=cython.int, i=cython.Py_ssize_t)
cpdef add_word_sizes(sizes, const int[::1] codes, const long long[::1] word_sizes, long long extra)
@cython.locals(out="long long[::1]", i=cython.Py_ssize_t)
cpdef add_list_sizes(
    sizes, const long long[::1] offsets, const long long[::1] up_to, long long extra
)
