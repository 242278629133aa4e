# The C types of topics.py.
cimport cython

from kanalyze.kafka.codec.machine cimport are_equal, doubled, texts_from
from kanalyze.kafka.codec.values cimport Texts

cdef int CACHED, MIN_SLOTS

cdef enum:
    FAILED = -2  # a literal in a final class becomes a wrong literal of C (Cython 3.3.1)
    NO_TOPIC = -1
    METADATA = 1
    KEY_CELLS = 4

cdef unsigned long long MIX_ONE, MIX_OTHER, LOW_64_BITS, SEED
cdef long long _DEAD


@cython.final
cdef class KeyTable:
    cdef long long[::1] keys, slots
    cdef readonly Py_ssize_t count, removed

    cdef tuple _key(self, Py_ssize_t entry)
    cdef bint is_removed(self, Py_ssize_t entry) except -1
    @cython.locals(mask=cython.longlong, slot=cython.longlong, entry=cython.longlong, at=cython.longlong)
    cpdef Py_ssize_t find(self, long long first, long long topic, long long topic_id,
        long long partition) except -2
    @cython.locals(entry=cython.Py_ssize_t, at=cython.longlong)
    cpdef Py_ssize_t add(self, long long first, long long topic, long long topic_id,
        long long partition) except -2
    cpdef remove(self, Py_ssize_t entry)
    cpdef clear(self)
    @cython.locals(at=cython.longlong, mask=cython.longlong, slot=cython.longlong)
    cdef int _place(self, Py_ssize_t entry) except -1
    @cython.locals(count=cython.Py_ssize_t, entry=cython.Py_ssize_t, cell=cython.int,
        size=cython.Py_ssize_t)
    cdef _grow(self)


@cython.locals(mixed=cython.ulonglong)
cdef long long _hash(unsigned long long first, unsigned long long topic,
    unsigned long long topic_id, unsigned long long partition) noexcept nogil


@cython.final
cdef class TopicTable:
    cdef readonly Texts texts
    cdef readonly long long generation
    cdef list _names
    cdef dict _numbers
    cdef list _ids
    cdef dict _id_numbers
    cdef long long _characters
    cdef long long[::1] _begins, _sizes
    cdef unsigned char[::1] _bytes
    cdef long long _bytes_used
    cdef long long[::1] _halves, _cached, _cached_ids

    cdef _begin(self)
    cpdef clear(self)
    @cython.locals(mixed=cython.ulonglong, slot=cython.longlong, number=cython.longlong)
    cdef long long number(self, const unsigned char* data, long long begin,
        long long size) except FAILED
    cdef bint _is_at(self, long long number, const unsigned char* data, long long begin,
        long long size) except -1
    @cython.locals(at=cython.longlong, i=cython.longlong)
    cdef long long _looked_up(self, const unsigned char* data, long long begin,
        long long size) except FAILED
    cpdef long long number_of(self, name) except FAILED
    cpdef name(self, long long number)
    @cython.locals(mixed=cython.ulonglong, slot=cython.longlong, number=cython.longlong)
    cdef long long id_number(self, long long high, long long low) except FAILED
    cpdef long long number_of_id(self, bytes topic_id) except FAILED
    cpdef bytes id(self, long long number)
