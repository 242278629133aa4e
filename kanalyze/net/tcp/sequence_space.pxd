# The C types of sequence_space.py.
cimport cython

cdef enum:
    FUTURE_BYTES = 1073741824
    PAST_BYTES = 67108864

cdef long long SEQUENCE_MASK, HALF

cpdef long long distance(long long later, long long earlier) noexcept


cdef class SequenceSpace:
    cdef public object connection
    cdef public long long index
    cdef public bint started
    cdef public bint has_syn
    cdef public long long first_sequence
    cdef public long long next_sequence
    cdef public long long stream_offset
    cdef public object fin_offset

    cpdef long long offset_of(self, long long sequence) noexcept
    @cython.locals(ahead=cython.longlong)
    cpdef bint is_out_of_window(self, long long begin, long long end) except -1
    cpdef advance(self, long long length)
