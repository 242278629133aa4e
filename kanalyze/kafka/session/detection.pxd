# The C types of detection.py.
from kanalyze.model.streams cimport Segments


cdef bint _is_captured(Segments segments, Py_ssize_t index) except -1
