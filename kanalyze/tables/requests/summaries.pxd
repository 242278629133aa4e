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

    FIRST_TEXT = 20
    GROUP_ID = 20
    TRANSACTIONAL_ID = 21
    KEY = 22
    FIRST_NUMBER = 40
    MAX_WAIT_MS = 40
    MIN_BYTES = 41
    MAX_BYTES = 42
    MAX_RECORDS = 43
    SHARE_EPOCH = 44
    SESSION_ID = 45
    SESSION_EPOCH = 46
    RESPONSE_SESSION_ID = 47
    KEY_TYPE = 48
    REPLICA_ID = 49
    REBALANCE_TIMEOUT_MS = 50
    SESSION_TIMEOUT_MS = 51


cdef long long _FEW, _ONE


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
    cdef long long known
    cdef long long[::1] numbers
    cdef list texts

    cdef clear(self, PartitionColumns partitions)
    cpdef int set_number(self, int field, long long value) except -1
    cpdef int set_text(self, int field, value) except -1
    cdef bint has(self, int field) except -1
    cpdef object number(self, int field)
    cpdef object text(self, int field)
