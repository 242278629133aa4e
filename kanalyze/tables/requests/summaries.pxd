# The C types of summaries.py.
cimport cython

from kanalyze.kafka.codec.machine cimport (cells_from, doubled, HIDDEN_COUNT, HIDDEN_FIRST,
    MISSING_RECORDS, RECORDS_CELLS, Tape, texts_from, words_of)
from kanalyze.kafka.codec.values cimport (AS_ARRAY, AS_BYTES, AS_NULLABLE, AS_RECORDS, AS_TEXT,
    EncodedFields, Shape)
from kanalyze.tables.requests.topics cimport FAILED, KeyTable, NO_TOPIC, TopicTable

cdef enum:
    PARTITION = 1
    RECORD_COUNT = 2
    RECORD_BYTES = 3
    BASE_OFFSET = 4
    HIGH_WATERMARK = 5
    CODEC = 6
    ERROR_CODE = 7
    LAST_OFFSET = 8
    PRODUCER_ID = 9
    PRODUCER_EPOCH = 10
    BASE_SEQUENCE = 11
    PREFERRED_READ_REPLICA = 12
    TOPIC = 13
    TOPIC_ID = 14
    CELLS = 15
    FIELD_CELLS = 3

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


cdef long long _FEW, _ONE, NO_PARTITION, NO_NUMBER


@cython.final
cdef class PartitionColumns:
    cdef readonly TopicTable topics
    cdef long long* cells
    cdef long long[::1] _kept
    cdef readonly Py_ssize_t count
    cdef KeyTable _entries
    cdef long long[::1] _places
    cdef Py_ssize_t _indexed

    cdef _keep(self, long long[::1] cells)
    cpdef clear(self)
    @cython.locals(at=cython.Py_ssize_t, begin=cython.Py_ssize_t)
    cdef inline Py_ssize_t add(self, long long topic, long long topic_id) except -1
    @cython.locals(begin=cython.Py_ssize_t)
    cdef inline int put(self, Py_ssize_t at, int column, long long value) except -1
    cdef int forget(self, Py_ssize_t at, int column) except -1
    cdef inline bint has(self, Py_ssize_t at, int column) except -1
    cdef inline long long number(self, Py_ssize_t at, int column) except? FAILED
    cdef inline long long partition(self, Py_ssize_t at) except? FAILED
    @cython.locals(begin=cython.Py_ssize_t, cell=cython.Py_ssize_t)
    cdef insert(self, Py_ssize_t at, long long topic, long long topic_id)
    @cython.locals(to=cython.Py_ssize_t, column=cython.int)
    cdef Py_ssize_t copy(self, PartitionColumns other, Py_ssize_t at) except -1
    cdef Py_ssize_t index_of(self, PartitionColumns other, Py_ssize_t at, Py_ssize_t within) except -2
    cdef Py_ssize_t index_of_key(self, long long topic, long long topic_id, long long partition,
        Py_ssize_t within) except -2
    cdef int _note_first(self, Py_ssize_t within) except -1
    cdef Py_ssize_t entry_in(self, KeyTable keys, long long first, Py_ssize_t at,
        bint adds) except -2
    cdef Py_ssize_t note_all(self) except -1
    cdef Py_ssize_t noted(self, long long topic, long long topic_id, long long partition) except -2
    cdef int note(self, long long topic, long long topic_id, Py_ssize_t index) except -1
    cpdef add_partition(self, summary)


cdef Py_ssize_t _begin_of(PartitionColumns columns, Py_ssize_t at) except -1

cdef object _value_at(PartitionColumns columns, Py_ssize_t at, int column)
cdef object _partition_at(PartitionColumns columns, Py_ssize_t at)


@cython.final
cdef class FetchSessionUpdate:
    cdef readonly PartitionColumns named, forgotten
    cdef readonly long long session_id, epoch, response_session_id, error_code

    cpdef set(self, long long session_id, long long epoch, long long response_session_id,
        long long error_code)
    cdef bint has_new_id(self) except -1


@cython.final
cdef class ExchangeSummary:
    cdef readonly TopicTable topics
    cdef public PartitionColumns partitions
    cdef public list errors
    cdef list pairs
    cdef public FetchSessionUpdate session
    cdef public object delivery, has_assignments
    cdef public long long code, groups
    cdef public object first_group
    cdef long long known
    cdef long long numbers[63]
    cdef list texts

    cpdef clear(self, PartitionColumns partitions)
    cpdef int set_number(self, int field, long long value) except -1
    cpdef int set_text(self, int field, value) except -1
    cdef bint has(self, int field) except -1
    cpdef object number(self, int field)
    cdef long long number_or(self, int field, long long absent) except? FAILED
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
    AT_PREFERRED_REPLICA = 16


cdef long long _UNKNOWN_OFFSET


@cython.final
cdef class _StructPlan:
    cdef list absent, shapes, below
    cdef dict tagged
    cdef int[::1] _kept_fields
    cdef const int* fields
    cdef Py_ssize_t count, untagged, nested_tail
    cdef bint goes_below
    cdef int[::1] nested
    cdef Py_ssize_t nested_count
    cdef bint has_topic, has_topic_id, has_partition, has_code, has_high_watermark, has_lists
    cdef bint has_preferred_replica
    cdef bint has_names, opens_topic
    cdef long long topic, topic_id, partition, offset, high_watermark, preferred_replica


@cython.final
cdef class BodyWalk:
    cdef object _level
    cdef TopicTable _topics
    cdef bint _is_request, _by_hand
    cdef dict _plans
    cdef long long _generation
    cdef Shape _last_shape
    cdef _StructPlan _last_plan
    cdef Tape _tape
    cdef const long long* _cells
    cdef const unsigned char* _arena
    cdef long long _end, _arena_bytes, _at, _arena_at
    cdef long long* _marks
    cdef long long[::1] _kept_marks
    cdef Py_ssize_t _used
    cdef ExchangeSummary _summary
    cdef PartitionColumns _partitions, _forgotten
    cdef long long _topic, _topic_id, _partition, _offset, _high_watermark, _records_at, _code
    cdef long long _preferred_replica

    cpdef read(self, EncodedFields encoded, ExchangeSummary summary, PartitionColumns partitions,
        PartitionColumns forgotten)
    cdef int read_cells(self, Shape shape, Tape tape, long long at, long long arena_at,
        ExchangeSummary summary, PartitionColumns partitions, PartitionColumns forgotten) except -1
    cdef _StructPlan _plan_of(self, Shape shape)
    @cython.locals(first=cython.Py_ssize_t, has_topic=cython.bint)
    cdef long long _struct(self, _StructPlan plan, long long topic, long long topic_id,
        long long partition, bint in_partition) except? FAILED
    @cython.locals(at=cython.longlong, index=cython.Py_ssize_t, count=cython.longlong,
        place=cython.Py_ssize_t, _i=cython.longlong)
    cdef int _read_values(self, _StructPlan plan, Py_ssize_t first) except -1
    @cython.locals(role=cython.int, cells=cython.int, kind=cython.int, value=cython.longlong,
        place=cython.Py_ssize_t)
    cdef inline long long _read_value(self, _StructPlan plan, Py_ssize_t index, long long at) except FAILED
    cdef long long _after(self, Shape shape, long long at) except FAILED
    @cython.locals(inner=Shape)
    cdef long long _after_struct(self, Shape shape, long long at) except FAILED
    cdef long long _topic_at(self, long long at) except FAILED
    @cython.locals(size=cython.longlong, begin=cython.longlong)
    cdef str _text_at(self, long long at)
    cdef int _add_topic(self, _StructPlan plan, Py_ssize_t before, long long topic,
        long long topic_id, long long code) except -1
    cdef int _add_partition(self, _StructPlan plan, long long topic, long long topic_id) except -1
    @cython.locals(role=cython.int, index=cython.Py_ssize_t, at=cython.longlong,
        value=cython.longlong)
    cdef int _read_nested(self, _StructPlan plan, Py_ssize_t first, long long topic,
        long long topic_id, long long partition, bint in_partition, bint has_errors) except -1
    @cython.locals(nested=_StructPlan)
    cdef inline int _below(self, _StructPlan plan, Py_ssize_t index, long long topic,
        long long topic_id, long long partition, bint in_partition) except -1
    @cython.locals(index=cython.Py_ssize_t, at=cython.longlong, count=cython.longlong,
        _i=cython.longlong)
    cdef int _lists(self, _StructPlan plan, Py_ssize_t first, int role, long long topic,
        long long topic_id) except -1
    cdef inline int _add_records(self, Py_ssize_t index, long long at, long long offset) except -1
    cdef _set_absent(self, _StructPlan plan)
    cdef _set_text(self, int field, text)
    cdef _read_rare(self, int role, long long at)


cdef long long _cell(BodyWalk walk, long long at) except? FAILED
@cython.locals(begin=cython.longlong)
cdef long long _text_begin(BodyWalk walk, long long at, long long size) except FAILED
