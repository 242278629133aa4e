# The C types of stream_items.py.
cimport cython

from kanalyze.model.streams cimport Segments


@cython.locals(segments=Segments, index=cython.Py_ssize_t, total=cython.longlong)
cpdef long long payload_bytes(tuple items) except -1
