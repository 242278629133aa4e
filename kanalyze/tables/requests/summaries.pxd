# The C types of summaries.py.
cimport cython

from kanalyze.tables.requests.fetch_sessions cimport FetchSessionUpdate

cdef enum:
    PARTITION = 1
    RECORD_COUNT = 2
    RECORD_BYTES = 3
    BASE_OFFSET = 4
    HIGH_WATERMARK = 5
    CODEC = 6
    ERROR_CODE = 7
    LAST_OFFSET = 8
    CELLS = 9

    THROTTLE_TIME_MS = 20
    ACKS = 21
    MAX_WAIT_MS = 22
    MIN_BYTES = 23
    MAX_BYTES = 24
    MAX_RECORDS = 25
    SHARE_EPOCH = 26
    SESSION_ID = 27
    SESSION_EPOCH = 28
    RESPONSE_SESSION_ID = 29
    KEY_TYPE = 30
    REPLICA_ID = 31
    REBALANCE_TIMEOUT_MS = 32
    SESSION_TIMEOUT_MS = 33
    GROUP_ID = 34
    MEMBER_ID = 35
    TRANSACTIONAL_ID = 36
    KEY = 37


cdef long long _FEW


cdef class PartitionColumns:
    cdef readonly list topics
    cdef readonly list topic_ids
    cdef long long[::1] cells
    cdef readonly Py_ssize_t count
    cdef dict index
    cdef Py_ssize_t indexed

    cdef clear(self)
    @cython.locals(at=cython.Py_ssize_t, begin=cython.Py_ssize_t)
    cdef Py_ssize_t add(self, topic, topic_id) except -1
    cdef _grow(self)
    @cython.locals(begin=cython.Py_ssize_t)
    cdef int put(self, Py_ssize_t at, int column, long long value) except -1
    cdef int forget(self, Py_ssize_t at, int column) except -1
    cdef long long present_columns(self, Py_ssize_t at) except? -7
    cdef bint has(self, Py_ssize_t at, int column) except -1
    cdef long long number(self, Py_ssize_t at, int column) except? -7
    cdef object get(self, Py_ssize_t at, int column)
    @cython.locals(begin=cython.Py_ssize_t, cell=cython.Py_ssize_t)
    cdef insert(self, Py_ssize_t at, topic, topic_id)
    @cython.locals(to=cython.Py_ssize_t, column=cython.int)
    cdef Py_ssize_t copy(self, PartitionColumns other, Py_ssize_t at) except -1
    @cython.locals(partition=cython.longlong, index=cython.Py_ssize_t)
    cdef Py_ssize_t index_of(self, PartitionColumns other, Py_ssize_t at, Py_ssize_t within) except -2
    cdef Py_ssize_t _looked_up(self, PartitionColumns other, Py_ssize_t at, Py_ssize_t within) except -2
    cdef tuple key_of(self, Py_ssize_t at)
    cdef object _partition_at(self, Py_ssize_t at)
    cpdef add_partition(self, summary)


cdef class ExchangeSummary:
    cdef public PartitionColumns partitions
    cdef public list errors
    cdef public list names
    cdef public FetchSessionUpdate session
    cdef public object delivery
    cdef public object has_assignments
    cdef public long long code
    cdef public long long groups
    cdef public object first_group
    cdef public object throttle_time_ms
    cdef public object acks
    cdef public object max_wait_ms
    cdef public object min_bytes
    cdef public object max_bytes
    cdef public object max_records
    cdef public object share_epoch
    cdef public object session_id
    cdef public object session_epoch
    cdef public object response_session_id
    cdef public object key_type
    cdef public object replica_id
    cdef public object rebalance_timeout_ms
    cdef public object session_timeout_ms
    cdef public object group_id
    cdef public object member_id
    cdef public object transactional_id
    cdef public object key

    cdef clear(self, PartitionColumns partitions)
    cdef int set_number(self, int field, long long value) except -1
    cdef int set_text(self, int field, value) except -1
