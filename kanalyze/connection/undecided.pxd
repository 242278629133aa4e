# The C types of undecided.py.
cimport cython

from kanalyze.segments cimport Segments


@cython.locals(
    segments=Segments,
    index=cython.Py_ssize_t,
    start=cython.Py_ssize_t,
    length=cython.Py_ssize_t,
)
cdef _first_segment(list items)
