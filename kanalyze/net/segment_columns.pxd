# The C types of segment_columns.py.
cimport cython

cdef unsigned long long MIX_ADDRESS, MIX_PORT, MIX_BOTH, LOW_64_BITS


@cython.locals(
    target="long long[::1]",
    source_high="const unsigned long long[::1]",
    source_low="const unsigned long long[::1]",
    source_port="const long long[::1]",
    destination_high="const unsigned long long[::1]",
    destination_low="const unsigned long long[::1]",
    destination_port="const long long[::1]",
    row=cython.Py_ssize_t,
)
cdef fill_shards(shards, segments, long long count)
@cython.locals(ends=cython.ulonglong)
cpdef long long shard_of(
    unsigned long long source_high,
    unsigned long long source_low,
    unsigned long long source_port,
    unsigned long long destination_high,
    unsigned long long destination_low,
    unsigned long long destination_port,
    unsigned long long count,
) except -1
@cython.locals(both=cython.ulonglong)
cdef unsigned long long mixed(
    unsigned long long high, unsigned long long low, unsigned long long port
) noexcept
