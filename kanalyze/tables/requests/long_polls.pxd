# The C types of long_polls.py.
cimport cython

from kanalyze.kafka.codec.machine cimport doubled
from kanalyze.tables.requests.summaries cimport (BASE_OFFSET, ERROR_CODE, ExchangeSummary,
    FetchSessionUpdate, HIGH_WATERMARK, LAST_OFFSET, MAX_WAIT_MS, MIN_BYTES, PartitionColumns,
    REBALANCE_TIMEOUT_MS, RECORD_BYTES, REPLICA_ID, SESSION_TIMEOUT_MS, SHARE_EPOCH, TOPIC,
    TOPIC_ID)
from kanalyze.tables.requests.topics cimport FAILED, KeyTable, METADATA, TopicTable

cdef int LOG_CELLS, DELAYED_UNTIL, LAST, SESSION, NEXT_EPOCH, SESSION_LAST
cdef int CONNECTION_CELLS

cdef enum:
    NO_WAIT_KNOWN = -1
    MAX_LOG_ENDS = 4  # a remainder of a number that the compiler knows is no division
    NOT_KNOWN = -1

cdef long long _ANY_OFFSET, _LONGEST_NS, _TIMER_NS, _NS_PER_MS, _HIGHEST_EPOCH
cdef long long _FINAL_EPOCH, _MAX_PARTITIONS, _MAX_CONNECTIONS, _MAX_SESSION_PARTITIONS

cdef long long longest_wait(ExchangeSummary summary) except FAILED
cpdef bint is_replication(ExchangeSummary summary) except -1
cdef long long apart(long long late_ns, long long early_ns) noexcept


@cython.final
cdef class LogEnds:
    cdef readonly KeyTable keys
    cdef long long[::1] known

    cdef Py_ssize_t find(self, long long connection, PartitionColumns partitions,
        Py_ssize_t index) except -2
    cdef int learn(self, long long connection, PartitionColumns partitions, Py_ssize_t index,
        long long high_watermark, long long time_ns) except -1
    cpdef Py_ssize_t entry(self, long long connection, long long topic, long long topic_id,
        long long partition) except -2
    cdef int _make_room(self) except -1
    cdef int _begin(self, Py_ssize_t entry) except -1
    @cython.locals(at=cython.longlong, count=cython.longlong, place=cython.longlong)
    cpdef int add(self, Py_ssize_t entry, long long high_watermark, long long time_ns) except -1
    @cython.locals(at=cython.longlong, count=cython.longlong, number=cython.longlong,
        place=cython.longlong)
    cdef long long before(self, long long entry, long long time_ns) except FAILED


@cython.final
cdef class LongPollDetector:
    cdef TopicTable _topics
    cdef public dict _emptied, _join_ms
    cdef LogEnds _logs
    cdef KeyTable _connections
    cdef long long[::1] _records, _news, _log_ends
    cdef Py_ssize_t _news_count, _ends_count
    cdef long long _record_bytes, _learned_ns
    cdef bint _failed, _is_ended

    @cython.locals(entry=cython.Py_ssize_t, at=cython.longlong)
    cpdef long long _connection(self, long long connection) except FAILED
    cpdef int _set_session(self, long long at, long long session_id, long long next_epoch,
        long long last_ns) except -1
    cpdef member_limit_ms(self, connection, ExchangeSummary summary)
    @cython.locals(at=cython.longlong, delayed_until=cython.longlong, last_ns=cython.longlong,
        is_full=cython.bint, index=cython.Py_ssize_t)
    cpdef int fetch_waited(self, ExchangeSummary summary, long long connection,
        long long request_ns, long long response_ns, bint has_lost, long long lost_ns) except -2
    @cython.locals(named=PartitionColumns, index=cython.Py_ssize_t)
    cdef int _read_news(self, ExchangeSummary summary, long long connection,
        long long quiet_ns) except -1
    @cython.locals(at=cython.longlong)
    cdef int _add_news(self, long long connection, PartitionColumns partitions, Py_ssize_t index,
        long long offset, long long absent_ns) except -1
    @cython.locals(at=cython.longlong)
    cdef int _add_end(self, Py_ssize_t index, long long high_watermark) except -1
    @cython.locals(number=cython.Py_ssize_t, index=cython.Py_ssize_t,
        high_watermark=cython.longlong, known=cython.longlong)
    cdef int _add_higher(self, PartitionColumns partitions, long long connection,
        long long request_ns) except -1
    @cython.locals(entry=cython.Py_ssize_t, at=cython.longlong, last_ns=cython.longlong)
    cdef long long _follow_session(self, ExchangeSummary summary, long long connection,
        long long response_ns) except FAILED
    @cython.locals(latency_ns=cython.longlong, newest_ns=cython.longlong, number=cython.Py_ssize_t,
        quiet_ns=cython.longlong, known_ns=cython.longlong, known=cython.longlong)
    cdef bint _waited_itself(self, long long request_ns, long long response_ns,
        long long max_wait_ms, bint is_full) except -1
    cpdef waited_for_updates(self, stream, request_ns, response_ns, delivery, lost_ns=*)


@cython.final
cdef class FetchSession:
    cdef TopicTable _topics
    cdef public long long used, next_epoch
    cdef readonly KeyTable keys
    cdef public long long changes
    cdef public long long list_number, listed_changes, listed_names

    @cython.locals(grown=cython.Py_ssize_t)
    cdef Py_ssize_t change(self, PartitionColumns added, PartitionColumns forgotten) except? -7
    @cython.locals(grown=cython.Py_ssize_t)
    cdef Py_ssize_t add(self, PartitionColumns added) except -1


@cython.final
cdef class FetchSessions:
    cdef TopicTable _topics
    cdef FetchSession _none
    cdef KeyTable _keys
    cdef list _sessions, _queue
    cdef long long _fetches
    cdef Py_ssize_t _most_sessions, _most_partitions, _partitions

    cpdef FetchSession follow(self, long long connection, FetchSessionUpdate fetch)
    cdef _begin(self, long long connection, long long session_id, PartitionColumns named)
    cdef _put(self, long long connection, long long session_id, FetchSession session)
    cdef _use(self, FetchSession session)
    @cython.locals(session=FetchSession)
    cdef FetchSession _incremental(self, long long connection, FetchSessionUpdate fetch)
    @cython.locals(session=FetchSession)
    cdef _forget(self, long long connection, long long session_id)
    @cython.locals(session=FetchSession, used=cython.longlong, connection=cython.longlong,
        session_id=cython.longlong)
    cdef _drop_oldest(self)
