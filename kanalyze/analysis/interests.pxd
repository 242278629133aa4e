# The C types of interests.py.
cimport cython

from kanalyze.analysis.facts cimport Part, known_offset, new_part


cdef class _Level:
    cdef Py_ssize_t topic
    cdef Py_ssize_t topic_id
    cdef Py_ssize_t partition
    cdef list steps
    cdef bint tells_names
    cdef list topics
    cdef list partitions
    cdef Py_ssize_t offset
    cdef Py_ssize_t high_watermark
    cdef Py_ssize_t records
    cdef bint opens_topic
    cdef readonly bint has_partitions


cdef class BodyWalk:
    cdef _Level _level

    cpdef list partitions(self, tuple values)


@cython.locals(level=_Level)
cdef bint _any_names(_Level level) except *
@cython.locals(index=cython.Py_ssize_t, below=_Level, is_array=cython.bint)
cdef _walk(_Level level, tuple values, topic, topic_id, partition, list errors, list names)
cdef object _topic(_Level level, tuple values, around)
cdef object _topic_id(_Level level, tuple values, around)
@cython.locals(place=cython.Py_ssize_t)
cdef Py_ssize_t _collect_own(
    _Level level, tuple values, topic, topic_id, bint is_known, list found
) except -1
@cython.locals(
    index=cython.Py_ssize_t,
    below=_Level,
    is_array=cython.bint,
    is_known=cython.bint,
    before=cython.Py_ssize_t,
    whole=Part,
)
cdef _collect(_Level level, tuple values, topic, topic_id, list found)
@cython.locals(part=Part)
cdef Part _partition(_Level level, tuple values, topic, topic_id)
@cython.locals(index=cython.Py_ssize_t, below=_Level)
cdef object _code(_Level level, tuple values)
