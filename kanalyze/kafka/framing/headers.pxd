# The C types of headers.py.
cimport cython


@cython.final
cdef class RequestHeader:
    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly long long correlation_id
    cdef readonly str client_id
    cdef readonly long long body


@cython.locals(header=RequestHeader)
cdef RequestHeader request_header_of(
    int api_key, int api_version, long long correlation_id, str client_id, long long body
)
