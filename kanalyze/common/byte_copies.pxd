# The C types of byte_copies.py.
cimport cython


@cython.locals(first="const unsigned char *")
cpdef bytes copy_bytes(const unsigned char[::1] data, Py_ssize_t begin, Py_ssize_t end)
@cython.locals(first="const char *")
cpdef bytes copy_from_array(bytearray array, Py_ssize_t begin, Py_ssize_t end)
cpdef append(bytearray array, const unsigned char[::1] data, Py_ssize_t begin, Py_ssize_t end)
@cython.locals(
    source="const unsigned char[::1]", firsts="const long long[::1]", lasts="const long long[::1]",
    target="unsigned char[::1]", size=cython.Py_ssize_t, total=cython.Py_ssize_t,
    at=cython.Py_ssize_t, until=cython.Py_ssize_t, index=cython.Py_ssize_t,
)
cpdef bytearray joined(object data, object begins, object ends)
