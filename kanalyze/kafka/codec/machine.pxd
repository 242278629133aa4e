# The C types of machine.py. The numbers are those of opcodes.py: tests/kafka/codec/test_opcodes.py.
cimport cython
from libc.string cimport memcmp, memcpy

cdef enum:
    END = 0
    NEXT_TAG = 1
    SKIP = 2
    INT8 = 3
    UINT8 = 4
    INT16 = 5
    UINT16 = 6
    INT32 = 7
    UINT32 = 8
    INT64 = 9
    UUID = 10
    TEXT = 11
    RECORDS = 12
    ARRAY = 13
    ELEMENTS = 14
    LOOP = 15
    NULLABLE = 16
    TAGS = 17
    TAG_END = 18
    JUMP = 19

    NULLS = 1
    COMPACT = 2
    WIDE = 4
    WANTED = 8
    KEEP_UNKNOWN = 16

    NEXT_TAG_ADDRESS = 1
    RECORDS_CELLS = 11

    CONTROL = 1
    TRUNCATED_RECORDS = 2
    MALFORMED_RECORDS = 4
    MISSING_RECORDS = 8
    HIDDEN_COUNT = 16
    HIDDEN_FIRST = 32

cdef enum:
    RUNNING = 0
    DONE = 1
    TRUNCATED = 2
    MALFORMED = 3

    MOST_CELLS = 16  # an instruction puts at most 11 cells on the tape: those of records

cdef int CARRY_BYTES, BATCH_HEADER_BYTES, ENTRY_HEAD_BYTES, MESSAGE_HEAD_BYTES, MAGIC_AT
cdef int MIN_BATCH_LENGTH, MIN_MESSAGE_SIZE_0, MIN_MESSAGE_SIZE_1, MIN_RECORD_BYTES, CODEC_BITS
cdef int CONTROL_BIT, NO_TIMESTAMP, TAG_CELLS, MAX_NOTES


@cython.final
cdef class Programs:
    cdef readonly int size
    cdef object words
    cdef int[::1] code


# The first element of a view, for code that compares every position with the end itself.
cdef inline const unsigned char* start_of(const unsigned char[::1] view) noexcept nogil:
    if view.shape[0] == 0:
        return NULL
    return &view[0]


cdef inline const int* words_of(const int[::1] view) noexcept nogil:
    if view.shape[0] == 0:
        return NULL
    return &view[0]


cdef inline long long* cells_from(long long[::1] view, long long at) noexcept nogil:
    if view.shape[0] == 0:
        return NULL
    return &view[0] + at


cdef inline unsigned char* texts_from(unsigned char[::1] view, long long at) noexcept nogil:
    if view.shape[0] == 0:
        return NULL
    return &view[0] + at


cdef inline const unsigned char* bytes_from(const unsigned char* data, long long at) noexcept nogil:
    return data + at


cdef inline int copy_bytes(unsigned char* to, long long at, const unsigned char* data,
    long long pos, long long count) noexcept nogil:
    if count > 0:
        memcpy(to + at, data + pos, count)
    return 0


# Numbers of the wire, whose highest byte is the first, without a check. Compilers know this way to
# put bytes together: they make one load of it.
cdef inline long long int16_in(const unsigned char* data, long long pos) noexcept nogil:
    return <short> (<unsigned int> data[pos] << 8 | <unsigned int> data[pos + 1])


cdef inline unsigned int uint32_in(const unsigned char* data, long long pos) noexcept nogil:
    return (<unsigned int> data[pos] << 24 | <unsigned int> data[pos + 1] << 16
        | <unsigned int> data[pos + 2] << 8 | <unsigned int> data[pos + 3])


cdef inline long long int32_in(const unsigned char* data, long long pos) noexcept nogil:
    return <int> uint32_in(data, pos)


cdef inline long long int64_in(const unsigned char* data, long long pos) noexcept nogil:
    return <long long> (<unsigned long long> uint32_in(data, pos) << 32 | uint32_in(data, pos + 4))


cdef inline bint are_equal(const unsigned char* data, long long pos, const unsigned char* other,
    long long count) noexcept nogil:
    return memcmp(data + pos, other, count) == 0


cdef class Tape:
    cdef long long[::1] cells
    cdef unsigned char[::1] arena
    cdef long long used, arena_used

    cpdef bint has_room(self, long long cells, long long arena_bytes)
    cdef keep(self, long long cells, long long arena_bytes)
    @cython.locals(at=cython.longlong, i=cython.longlong)
    cdef add(self, const long long[::1] cells, long long begin, long long count)
    @cython.locals(at=cython.longlong, i=cython.longlong)
    cdef add_bytes(self, const unsigned char[::1] arena, long long begin, long long count)


@cython.final
cdef class Machine:
    cdef readonly int status
    cdef readonly long long skip, remaining_bytes, used, arena_used
    cdef readonly int carried
    cdef readonly Programs programs
    cdef int pc
    cdef long long floor
    cdef int inside
    cdef long long copy, records, records_at
    cdef long long[::1] stack
    cdef int depth
    cdef Tape own_tape
    cdef readonly Tape tape
    cdef long long begin_at, arena_begin
    cdef long long* cells
    cdef unsigned char* texts
    cdef long long room, arena_room
    cdef unsigned char[::1] carry
    cdef public bint noting
    cdef readonly long long batches, noted
    cdef readonly long long[::1] notes

    cpdef begin(self, int address, int stack_cells, long long body_bytes, Tape tape=*)
    cdef _write_to(self, Tape tape)
    cpdef Py_ssize_t feed(self, const unsigned char[::1] data, long long pos,
        long long end) except -1
    @cython.locals(used=cython.longlong, i=cython.longlong)
    cdef Py_ssize_t feed_at(self, const unsigned char* data, long long pos,
        long long end) except -1 nogil
    @cython.locals(used=cython.longlong, old=cython.longlong, take=cython.longlong, i=cython.longlong)
    cdef Py_ssize_t _feed_carried(self, const unsigned char* data, long long pos,
        long long end) except -1 nogil
    @cython.locals(records_bytes=cython.longlong)
    cpdef bint skip_missing_records(self) except -1
    cpdef long long next_at(self, long long end) noexcept

    @cython.locals(code="const int*", pc=cython.int, op=cython.int, flags=cython.int,
        frame_end=cython.longlong, bound=cython.longlong, stop=cython.longlong,
        have=cython.longlong, need=cython.longlong, width=cython.longlong, value=cython.longlong,
        status=cython.int, at=cython.int, i=cython.int)
    cdef Py_ssize_t _run(self, const unsigned char* data, long long pos,
        long long end) except -1 nogil
    @cython.locals(width=cython.longlong, more=cython.longlong, tag=cython.longlong,
        size=cython.longlong)
    cdef int _next_tag(self, const unsigned char* data, long long pos, long long stop,
        int at) except -9 nogil
    @cython.locals(pc=cython.int, tag=cython.longlong, address_index=cython.int, i=cython.int)
    cdef int _selected_tag(self, const int* code, int at) except -9 nogil

    cdef int _put_records(self, long long length) except -1 nogil
    @cython.locals(remaining_bytes=cython.longlong, need=cython.longlong, magic=cython.int,
        size=cython.longlong, least=cython.longlong)
    cdef int _entry(self, const unsigned char* data, long long pos, long long end,
        long long left) except -1 nogil
    @cython.locals(at=cython.longlong, attributes=cython.int, count=cython.longlong)
    cdef int _batch(self, const unsigned char* data, long long pos, long long size) except -1 nogil
    @cython.locals(at=cython.longlong, attributes=cython.int, time=cython.longlong)
    cdef int _message(self, const unsigned char* data, long long pos, int magic) except -1 nogil
    @cython.locals(at=cython.longlong)
    cdef int _note_batch(self, long long offset, int codec, long long first,
        long long last) except -1 nogil
    cdef int _end_records(self, int flag) except -1 nogil

    cdef inline void _put(self, long long value) noexcept nogil
    cdef int _copy_bytes(self, const unsigned char* data, long long pos,
        long long count) except -1 nogil
    cdef int _make_room(self, long long cells, long long arena_bytes) except -1


@cython.locals(larger="long long[::1]")
cdef long long[::1] doubled(long long[::1] cells)
cdef long long int16_of(long long first, long long second) noexcept nogil
@cython.locals(high=cython.longlong)
cdef long long int32_of(long long first, long long second, long long third,
    long long fourth) noexcept nogil
cdef long long int16_at(const unsigned char[::1] data, long long pos) except? -1 nogil
cdef long long int32_at(const unsigned char[::1] data, long long pos) except? -1 nogil
@cython.locals(k=cython.longlong)
cdef long long varint_width(const unsigned char* data, long long pos, long long stop) noexcept nogil
@cython.locals(value=cython.longlong, byte=cython.longlong, scale=cython.longlong)
cdef long long varint_at(const unsigned char* data, long long pos) noexcept nogil
