# The C types of findings.py.
cimport cython

from kanalyze.net.tcp.delivery cimport Held, Segment

cdef enum:
    IS_COPY = 1


cdef class _Cut:
    cdef public long long position
    cdef public long long missing
    cdef public long long time_ns
    cdef public long long packet
    cdef public long long packets


cdef class Findings:
    cdef public object connection
    cdef public long long index
    cdef public object notes
    cdef public bint _is_cut
    cdef public _Cut _more_cut

    cpdef lost(self, long long position, long long length, Held after)
    @cython.locals(missing=cython.longlong)
    cpdef snapped(
        self,
        long long position,
        long long length,
        long long captured,
        long long time_ns,
        long long packet,
    )
    @cython.locals(cut=_Cut)
    cpdef end(self)
    cpdef inconsistent(self, long long position, long long length, Segment segment)
    cpdef limit(self, long long position, long long held_bytes, Held after)
    cpdef out_of_order(self)
