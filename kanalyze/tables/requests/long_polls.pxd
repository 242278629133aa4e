# The C types of waits.py.
cimport cython

from kanalyze.tables.requests.summaries cimport Facts
from kanalyze.tables.requests.fetch_sessions cimport SessionFacts


@cython.locals(session=SessionFacts, ends=bint)
cpdef longest_wait_ms(Facts facts)


cdef class LogEnds:
    cdef public dict _emptied
    cdef public dict _ends
    cdef public dict _fetches

    @cython.locals(ends=list)
    cpdef learn(self, partition, high_watermark, time_ns)
    @cython.locals(before=tuple)
    cpdef waited(
        self,
        connection,
        asked_ns,
        answered_ns,
        max_wait_ms,
        min_bytes,
        record_bytes,
        bint failed,
        list got,
        lost_ns=*,
    )
    cpdef waited_for_news(self, stream, asked_ns, answered_ns, delivery, lost_ns=*)
    @cython.locals(told=tuple)
    cdef tuple _waited_itself(
        self,
        asked_ns,
        answered_ns,
        max_wait_ms,
        min_bytes,
        record_bytes,
        bint failed,
        list got,
    )
    @cython.locals(ends=list, told=tuple, index=cython.Py_ssize_t)
    cdef tuple _before(self, partition, time_ns)
