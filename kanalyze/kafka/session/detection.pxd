# The C types of undecided.py.
from kanalyze.model.segments cimport Segments


cdef bint _is_captured(Segments segments, Py_ssize_t index) except -1
