# The C types of tls_record.py.
cdef enum:
    MAX_BODY_BYTES = 18432

cpdef int size_by_header(int kind, int major, int minor, int body_bytes) noexcept
