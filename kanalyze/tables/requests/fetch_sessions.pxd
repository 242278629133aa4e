# The C types of fetch_sessions.py.
cimport cython


cdef class FetchSessionUpdate:
    cdef public object session_id
    cdef public long long epoch
    cdef public list named
    cdef public list forgotten
    cdef public object response_session_id
    cdef public long long error_code


cdef class FetchSession:
    cdef public long long next_epoch
    cdef public dict partitions
    cdef public long long changes

    cpdef Py_ssize_t change(self, list added, list forgotten) except? -1


cdef class FetchSessions:
    cdef public object _sessions
    cdef public Py_ssize_t _most_sessions
    cdef public Py_ssize_t _most_partitions
    cdef public Py_ssize_t _partitions

    cpdef FetchSession follow(self, connection, FetchSessionUpdate fetch)
    @cython.locals(session=FetchSession)
    cdef _begin(self, tuple key, list named)
    @cython.locals(session=FetchSession)
    cdef FetchSession _incremental(self, tuple key, FetchSessionUpdate fetch)
    @cython.locals(session=FetchSession)
    cdef _forget(self, tuple key)
    cdef _drop_oldest(self)
