# The C types of summaries.py.
cimport cython

from kanalyze.kafka.codec.machine cimport HIDDEN_COUNT, HIDDEN_FIRST, MISSING_RECORDS
from kanalyze.kafka.codec.values cimport AS_ARRAY, AS_NULLABLE, Shape, TapeCursor, EncodedFields

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


cdef class FetchSessionUpdate:
    cdef public object session_id
    cdef public long long epoch
    cdef public list named
    cdef public list forgotten
    cdef public object response_session_id
    cdef public long long error_code


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


cdef enum:
    AT_NOTHING = 0
    AT_ERROR = 1
    AT_TOPIC = 2
    AT_TOPIC_ID = 3
    AT_PARTITION = 4
    AT_OFFSET = 5
    AT_HIGH_WATERMARK = 6
    AT_RECORDS = 7
    AT_OLD_OFFSETS = 8
    AT_TOPICS = 9
    AT_PARTITIONS = 10
    AT_BELOW = 11
    AT_FORGOTTEN = 12
    AT_ASSIGNMENTS = 13
    AT_KEYS = 14
    AT_REQUESTED_GROUP = 15


cdef long long _UNKNOWN_OFFSET


cdef class _ValueStep:
    cdef readonly int role
    cdef Py_ssize_t index
    cdef Shape shape
    cdef _StructPlan below


cdef class _StructPlan:
    cdef list absent
    cdef list steps
    cdef dict tagged
    cdef Py_ssize_t count
    cdef Py_ssize_t untagged
    cdef Py_ssize_t nested_tail
    cdef bint goes_below
    cdef bint has_topic
    cdef bint has_topic_id
    cdef bint has_partition
    cdef bint has_code
    cdef bint has_high_watermark
    cdef bint has_lists
    cdef bint has_names
    cdef bint opens_topic
    cdef object topic
    cdef object topic_id
    cdef long long partition
    cdef long long offset
    cdef long long high_watermark

    cdef _ValueStep _add(self, level, index, Shape shape, bint by_hand)


cdef class BodyWalk:
    cdef object _level
    cdef TapeCursor _cursor
    cdef bint _is_request
    cdef bint _by_hand
    cdef dict _plans
    cdef Shape _last_shape
    cdef _StructPlan _last_plan
    cdef long long[::1] _marks
    cdef Py_ssize_t _used
    cdef ExchangeSummary _summary
    cdef PartitionColumns _partitions
    cdef PartitionColumns _forgotten
    cdef object _topic
    cdef object _topic_id
    cdef long long _partition
    cdef long long _offset
    cdef long long _high_watermark
    cdef long long _records_at
    cdef long long _code

    @cython.locals(plan=_StructPlan, code=cython.longlong)
    cpdef read(self, EncodedFields encoded, ExchangeSummary summary, PartitionColumns partitions, PartitionColumns forgotten)
    @cython.locals(plan=_StructPlan)
    cdef _StructPlan _plan_of(self, Shape shape)
    @cython.locals(
        first=cython.Py_ssize_t,
        before=cython.Py_ssize_t,
        code=cython.longlong,
        end=cython.longlong,
        has_topic=cython.bint,
    )
    cdef long long _struct(
        self, _StructPlan plan, topic, topic_id, long long partition, bint in_partition
    ) except? -7
    @cython.locals(
        cursor=TapeCursor,
        step=_ValueStep,
        index=cython.Py_ssize_t,
        count=cython.longlong,
        _i=cython.longlong,
    )
    cdef _read_values(self, _StructPlan plan, Py_ssize_t first)
    @cython.locals(cursor=TapeCursor, role=cython.int, code=cython.longlong)
    cdef _read_value(self, _ValueStep step)
    cdef _add_topic(self, _StructPlan plan, Py_ssize_t before, topic, topic_id, long long code)
    @cython.locals(partitions=PartitionColumns, at=cython.Py_ssize_t)
    cdef _add_partition(self, _StructPlan plan, topic, topic_id)
    @cython.locals(
        cursor=TapeCursor,
        step=_ValueStep,
        partitions=PartitionColumns,
        index=cython.Py_ssize_t,
        at=cython.longlong,
        value=cython.longlong,
    )
    cdef _read_nested(
        self,
        _StructPlan plan,
        Py_ssize_t first,
        topic,
        topic_id,
        long long partition,
        bint in_partition,
    )
    @cython.locals(plan=_StructPlan, kind=cython.int, count=cython.longlong, _i=cython.longlong)
    cdef _below(self, _ValueStep step, topic, topic_id, long long partition, bint in_partition)
    @cython.locals(
        cursor=TapeCursor,
        step=_ValueStep,
        partitions=PartitionColumns,
        index=cython.Py_ssize_t,
        at=cython.longlong,
        count=cython.longlong,
        place=cython.Py_ssize_t,
        _i=cython.longlong,
    )
    cdef _lists(self, _StructPlan plan, Py_ssize_t first, int role, topic, topic_id)
    @cython.locals(
        cursor=TapeCursor,
        partitions=PartitionColumns,
        size=cython.longlong,
        flags=cython.longlong,
        codec_and_seen=cython.longlong,
        column=cython.int,
    )
    cdef _add_records(self, Py_ssize_t index, long long at, long long offset)
    cdef _set_absent(self, _StructPlan plan)
    cdef _set_text(self, int field, text)
    @cython.locals(cursor=TapeCursor, summary=ExchangeSummary)
    cdef _read_rare(self, _ValueStep step)
    @cython.locals(cursor=TapeCursor, summary=ExchangeSummary, end=cython.longlong)
    cdef _read_keys(self, _ValueStep step)
    cdef _make_room(self, least)
