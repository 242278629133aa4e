# The C types of long_polls.py.
cimport cython

from kanalyze.tables.requests.summaries cimport (
    BASE_OFFSET,
    ERROR_CODE,
    ExchangeSummary,
    FetchSessionUpdate,
    HIGH_WATERMARK,
    LAST_OFFSET,
    MAX_WAIT_MS,
    MIN_BYTES,
    PARTITION,
    PartitionColumns,
    REBALANCE_TIMEOUT_MS,
    RECORD_BYTES,
    REPLICA_ID,
    SESSION_TIMEOUT_MS,
    SHARE_EPOCH,
)

@cython.locals(session=FetchSessionUpdate, ends=bint)
cpdef longest_wait_ms(ExchangeSummary summary)
@cython.locals(partitions=PartitionColumns, index=cython.Py_ssize_t)
cpdef bint is_replication(ExchangeSummary summary) except -1


cdef class LongPollDetector:
    cdef public dict _emptied
    cdef public dict _ends
    cdef public dict _fetches
    cdef public dict _sessions
    cdef public dict _join_ms

    cpdef member_limit_ms(self, connection, ExchangeSummary summary)
    @cython.locals(log_end=tuple)
    cdef list _higher(self, list log_ends, request_ns)
    @cython.locals(fetch=FetchSessionUpdate)
    cdef _follow_session(self, ExchangeSummary summary, connection, response_ns)
    @cython.locals(ends=list)
    cpdef learn(self, partition, high_watermark, time_ns)
    @cython.locals(
        partitions=PartitionColumns,
        index=cython.Py_ssize_t,
        column=cython.int,
        has_offset=cython.bint,
        has_end=cython.bint,
        record_bytes=cython.longlong,
        code=cython.longlong,
        is_replica=cython.bint,
        is_ended=cython.bint,
        failed=cython.bint,
        news=list,
        log_ends=list,
    )
    cpdef fetch_waited(
        self, ExchangeSummary summary, connection, request_ns, response_ns, lost_ns
    )
    @cython.locals(before=tuple)
    cpdef waited(
        self,
        connection,
        request_ns,
        response_ns,
        max_wait_ms,
        min_bytes,
        record_bytes,
        bint failed,
        list news,
        lost_ns=*,
    )
    cpdef waited_for_updates(self, stream, request_ns, response_ns, delivery, lost_ns=*)
    @cython.locals(log_end=tuple)
    cdef tuple _waited_itself(
        self,
        request_ns,
        response_ns,
        max_wait_ms,
        min_bytes,
        record_bytes,
        bint failed,
        list news,
    )
    @cython.locals(ends=list, log_end=tuple, index=cython.Py_ssize_t)
    cdef tuple _before(self, partition, time_ns)


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
