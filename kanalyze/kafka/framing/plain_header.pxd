# The C types of plain_header.py.
cimport cython


@cython.locals(
    size=cython.Py_ssize_t,
    body=cython.Py_ssize_t,
    flexible=cython.int,
    i=cython.int,
    length=cython.int,
)
cpdef Py_ssize_t plain_body(bytes data, bytes head, int header_version) except -1
