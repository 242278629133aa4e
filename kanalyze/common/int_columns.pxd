# The C types of int_columns.py.
cimport cython


@cython.locals(numbers="long long[::1]", index=cython.Py_ssize_t)
cpdef object rising(long long first, Py_ssize_t count)

@cython.locals(numbers="const long long[::1]", indices="const long long[::1]",
    target="long long[::1]", index=cython.Py_ssize_t, count=cython.Py_ssize_t)
cpdef object picked(object column, object rows)

@cython.locals(numbers="const int[::1]", indices="const long long[::1]", target="int[::1]",
    index=cython.Py_ssize_t, count=cython.Py_ssize_t)
cpdef object picked_types(object column, object rows)

@cython.locals(numbers="const long long[::1]", target="long long[::1]", index=cython.Py_ssize_t,
    count=cython.Py_ssize_t)
cpdef object shifted(object column, long long by)

@cython.locals(numbers="const long long[::1]", result=cython.longlong)
cpdef object total(object column)

@cython.locals(numbers="const long long[::1]", value=cython.longlong, least=cython.longlong,
    most=cython.longlong)
cpdef tuple bounds(object column)

@cython.locals(numbers="const long long[::1]", target="long long[::1]", count=cython.Py_ssize_t,
    back=cython.Py_ssize_t, index=cython.Py_ssize_t, value=cython.longlong,
    earliest=cython.longlong)
cpdef object earliest_from(object times)

@cython.locals(values="const long long[::1]", positions="long long[::1]", heads="long long[::1]",
    limits="long long[::1]", run_starts="long long[::1]", run_owners="long long[::1]",
    runs=cython.Py_ssize_t, done=cython.Py_ssize_t, position=cython.longlong, end=cython.longlong,
    limit=cython.longlong)
cpdef tuple take_turns(object keys, object begins)

@cython.locals(written="unsigned char[::1]", source="const unsigned char[::1]",
    tos="const long long[::1]", firsts="const long long[::1]", counts="const long long[::1]",
    room=cython.Py_ssize_t, size=cython.Py_ssize_t, to=cython.longlong, first=cython.longlong,
    count=cython.longlong)
cpdef object copy_ranges(object target, object places, object data, object begins, object sizes)

@cython.locals(numbers="const long long[::1]", target="long long[::1]", index=cython.Py_ssize_t,
    count=cython.Py_ssize_t, place=cython.longlong)
cpdef object places_of(object sizes, long long first=*)

@cython.locals(source="const unsigned char[::1]", firsts="const long long[::1]",
    lasts="const long long[::1]", target="unsigned char[::1]", total=cython.Py_ssize_t,
    at=cython.Py_ssize_t, until=cython.Py_ssize_t)
cpdef bytearray joined(object data, object begins, object ends)
