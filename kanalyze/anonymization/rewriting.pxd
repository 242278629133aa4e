# The C types of rewriting.py.
cimport cython
from libc.string cimport memcpy, memset

from kanalyze.kafka.framing.frame cimport plain_body
from kanalyze.kafka.records.batches cimport RecordCursor
from kanalyze.kafka.session.exchange cimport Exchange, Message, Peers
from kanalyze.net.header_cursor cimport DROPPED, IPV4, IPV6, TCP, HeaderCursor, read_ipv4, read_ipv6
from kanalyze.net.headers cimport read_link

cdef int FIXED, SIZED, ARRAY, FIXED_ARRAY, TAGS, ID, SHORT, WIDE, COMPACT, UUID_RULE, BLANK_RULE
cdef int MESSAGE_RULE, RECORDS_RULE, HEAD_BYTES, CLIENT_ID_AT, MAX_BEGIN_BYTES, UUID_BYTES, FILL
cdef int UNREADABLE, BATCH_HEADER_BYTES, ENTRY_HEAD_BYTES, MESSAGE_HEAD_BYTES, MAGIC_AT, CRC_AT
cdef int OLD_CRC_AT, CRC_FROM, COUNT_AT, CODEC, CONTROL, CONTROL_KEY_BYTES, CONTROL_VALUE_BYTES
cdef int ONES, WRONG, IPV4_BYTES, IPV6_BYTES, TCP_BYTES, FRAGMENT_BITS, OFFSET_AND_MORE
cdef int FRAGMENT_HEADER, AUTHENTICATION, TCP_PROTOCOL, UDP_PROTOCOL, SYN, TIMESTAMPS_BYTES
cdef int TWO_NOPS, TIMESTAMPS_HEAD, ALERT_BYTES, ETHERNET_LINK, MAX_HEADERS, SASL_HANDSHAKE
cdef int ENVELOPE

cdef enum:
    FAILED = -7

# That Python imports too.
cpdef enum:
    PIECE_CELLS = 4

cdef long long NO_HOLE, HALF, MASK, WINDOW_BYTES


cdef inline int copy_bytes(const unsigned char[::1] data, Py_ssize_t begin, unsigned char[::1] to,
    Py_ssize_t at, Py_ssize_t count) except -1:
    if count > 0:
        if (at < 0 or begin < 0 or count > data.shape[0] - begin or count > to.shape[0] - at):
            raise IndexError("bytes that are not there")
        memcpy(&to[0] + at, &data[0] + begin, count)
    return 0


cdef inline int put_bytes(bytes content, unsigned char[::1] to, Py_ssize_t at,
    Py_ssize_t count) except -1:
    if count > 0:
        if at < 0 or count > len(content) or count > to.shape[0] - at:
            raise IndexError("bytes that are not there")
        memcpy(&to[0] + at, <const char*>content, count)
    return 0


cdef inline bytes bytes_in(const unsigned char[::1] data, Py_ssize_t begin, Py_ssize_t size):
    if begin < 0 or size > data.shape[0] - begin:
        raise IndexError("bytes that are not there")
    return (<const char*>&data[0] + begin)[:size] if size > 0 else b""


cdef inline int fill_bytes(unsigned char[::1] to, Py_ssize_t at, Py_ssize_t count,
    int byte) except -1:
    if count > 0:
        if at < 0 or count > to.shape[0] - at:
            raise IndexError("bytes that are not there")
        memset(&to[0] + at, byte, count)
    return 0


cdef inline long long sums_of_bytes(const unsigned char[::1] data, Py_ssize_t begin,
    Py_ssize_t end) except FAILED:
    cdef unsigned long long even = 0, odd = 0
    cdef const unsigned char* at
    cdef Py_ssize_t i, count = end - begin
    if begin < 0 or end > data.shape[0]:
        raise IndexError("bytes that are not there")
    if count <= 0:
        return 0
    at = &data[0] + begin
    for i in range(count >> 1):
        even += at[2 * i]
        odd += at[2 * i + 1]
    if count & 1:
        even += at[count - 1]
    return (even << 8) + odd


cdef class WalkPlan:
    cdef const long long[::1] steps
    cdef readonly int header_version
    cdef readonly bint is_known, has_steps
    cdef readonly bytes head


@cython.final
cdef class FrameWalk:
    cdef object _messages
    cdef list _known
    cdef BatchBlanker _blanker
    cdef bytes _bytes
    cdef const unsigned char[::1] _data
    cdef unsigned char[::1] _out
    cdef const long long[::1] _steps
    cdef object _holes, _forwarded
    cdef long long _first_hole
    cdef Py_ssize_t _size, _copied, _at
    cdef readonly bytearray out
    cdef readonly list records
    cdef readonly object inner

    cpdef bint rewrite(self, WalkPlan plan, Py_ssize_t body, bint is_request) except -1
    @cython.locals(is_read=cython.bint)
    cdef bint _frame(self, WalkPlan plan, Py_ssize_t body, bint is_request) except -1
    cdef int _header(self, WalkPlan plan, Py_ssize_t body, bint is_request) except -1
    cdef int _rest(self) except -1
    @cython.locals(begin=cython.longlong, end=cython.longlong, at=cython.Py_ssize_t)
    cdef int _discard(self, Py_ssize_t body) except -1
    cdef int _pass(self, long long size) except -1
    cdef int _put(self, content, Py_ssize_t size) except -1
    cdef int _flush(self) except -1
    cdef int _need(self, long long size) except -1
    @cython.locals(byte=cython.int, length=cython.longlong)
    cdef long long _length(self, long long form) except? FAILED
    @cython.locals(shift=cython.int, byte=cython.longlong, value=cython.longlong)
    cdef long long _unsigned(self) except? FAILED
    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t)
    cdef _content(self, long long size, long long rule)
    cdef int _fill(self, long long size) except -1
    @cython.locals(at=cython.Py_ssize_t)
    cdef int _records(self, Py_ssize_t size) except -1
    @cython.locals(end=cython.Py_ssize_t)
    cdef int _walk(self, Py_ssize_t pc, Py_ssize_t pc_end) except -1
    @cython.locals(count=cython.longlong, end=cython.Py_ssize_t, marker=cython.int)
    cdef Py_ssize_t _other_step(self, long long code, Py_ssize_t pc) except -1
    cdef long long _count(self, long long form) except? FAILED
    @cython.locals(size=cython.longlong, end=cython.longlong, steps_at=cython.Py_ssize_t)
    cdef _tags(self, Py_ssize_t pc, Py_ssize_t pc_end)
    cdef Py_ssize_t _steps_of_tag(self, long long tag, Py_ssize_t pc, Py_ssize_t pc_end) except -1


@cython.locals(number=cython.longlong)
cdef long long int32_at(const unsigned char[::1] data, Py_ssize_t at) except? FAILED


cpdef long long form_key(long long api_key, long long api_version, bint is_request) except? FAILED


cdef class MessageWriter:
    cdef readonly object messages
    cdef readonly PieceWriter pieces
    cdef readonly long long message_count, unread_messages
    cdef object _ranges
    cdef dict _plans, _tokens
    cdef Peers _peers
    cdef long long _stream

    @cython.locals(exchange=Exchange)
    cpdef add_exchanges(self, list exchanges)
    @cython.locals(key=cython.longlong)
    cdef _exchange(self, Exchange exchange)
    @cython.locals(offset=cython.longlong, plan=WalkPlan, is_read=cython.bint)
    cdef _message(self, Exchange exchange, Message message, bint is_request, long long stream,
        forwarded)


cdef class BatchBlanker:
    cdef object _header_name
    cdef public long long blanked_batches

    @cython.locals(data="const unsigned char[::1]", view="unsigned char[::1]")
    cpdef blank(self, bytes field, Py_ssize_t at, Py_ssize_t last, bytearray out, list records,
        holes=*)
    @cython.locals(length=cython.longlong, magic=cython.int, head=cython.Py_ssize_t,
        end=cython.longlong, crc_at=cython.Py_ssize_t, is_complete=cython.bint)
    cdef Py_ssize_t _entry(self, bytes field, const unsigned char[::1] data, Py_ssize_t at,
        Py_ssize_t last, bytearray out, unsigned char[::1] view, list records, holes) except -1
    @cython.locals(attributes=cython.int, begin=cython.Py_ssize_t, is_control=cython.bint,
        is_blanked=cython.bint, is_right=cython.bint, crc=cython.ulonglong, i=cython.int)
    cdef int _batch(self, bytes field, const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end,
        bytearray out, unsigned char[::1] view) except -1
    @cython.locals(view="unsigned char[::1]", cursor=RecordCursor)
    cpdef bint blank_records(self, bytes records, Py_ssize_t begin, Py_ssize_t end,
        long long count, bint is_control, bytearray out) except -1
    cdef _headers(self, bytes records, RecordCursor cursor, bytearray out)


cdef Py_ssize_t after_varint(const unsigned char[::1] data, Py_ssize_t at) except -1


@cython.final
cdef class PieceWriter:
    cdef object _file, _numbers
    cdef bytearray _bytes
    cdef unsigned char[::1] _buffer
    cdef long long[::1] _cells
    cdef Py_ssize_t _used
    cdef readonly long long count, file_bytes, furthest

    @cython.locals(size=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cpdef add(self, long long stream, long long offset, data)


cdef class PieceReader:
    cdef public dict bounds
    cdef const long long[::1] _offsets, _lengths, _places
    cdef const unsigned char[::1] _data

    cpdef set_pieces(self, offsets, lengths, places, data)
    @cython.locals(first=cython.Py_ssize_t, last=cython.Py_ssize_t, longest=cython.longlong,
        index=cython.Py_ssize_t, begin=cython.longlong, start=cython.longlong,
        count=cython.longlong)
    cpdef bint read(self, stream, long long offset, long long length, unsigned char[::1] to,
        Py_ssize_t at) except -1
    @cython.locals(middle=cython.Py_ssize_t)
    cdef Py_ssize_t _first_after(self, long long offset, Py_ssize_t first,
        Py_ssize_t last) except -1


@cython.final
cdef class OneWayStream:
    cdef readonly object number
    cdef readonly Py_ssize_t shard
    cdef readonly long long first_packet, first_sequence, furthest

    @cython.locals(distance=cython.longlong, offset=cython.longlong)
    cpdef long long offset_of(self, long long sequence) except? FAILED


cdef class StreamPayloads:
    cdef dict _streams
    cdef list _shards
    cdef public long long kept_bytes

    @cython.locals(pieces=PieceReader)
    cpdef bint find(self, bytes ends, long long sequence, long long length, long long packet,
        unsigned char[::1] to, Py_ssize_t at, Py_ssize_t room) except -1
    cpdef long long kept(self, OneWayStream _stream, long long _offset, long long length) except -1


@cython.locals(stream=OneWayStream, later=OneWayStream)
cpdef OneWayStream stream_at(list streams, long long packet)


cdef class Addresses:
    cdef readonly bytes both, new
    cdef readonly long long sum, new_sum


cdef class PacketBytes:
    cdef readonly object stand_ins
    cdef object _buffer
    cdef const unsigned char[::1] _from
    cdef unsigned char[::1] _to
    cdef public Py_ssize_t begin_at
    cdef Py_ssize_t _out_at, _size
    cdef list _sums

    cdef bytes _bytes(self, Py_ssize_t at, Py_ssize_t size)
    cdef long long _byte(self, Py_ssize_t at) except? FAILED
    cpdef put(self, Py_ssize_t at, bytes content)
    cpdef copy(self, Py_ssize_t begin, Py_ssize_t end)
    cpdef add_sum(self, Py_ssize_t at, Py_ssize_t end, Py_ssize_t checksum_at, Addresses pseudo,
        int protocol)
    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t, checksum_at=cython.Py_ssize_t,
        pseudo=Addresses, protocol=cython.int)
    cdef _write_sums(self)
    @cython.locals(old_checksum=cython.longlong, partial=cython.longlong,
        new_partial=cython.longlong, old=cython.longlong, new=cython.longlong,
        value=cython.longlong, more=cython.longlong)
    cdef _write_sum(self, Py_ssize_t at, Py_ssize_t end, Py_ssize_t checksum_at, Addresses pseudo,
        int protocol)
    cdef long long _word(self, Py_ssize_t at) except? FAILED
    cdef int _put_word(self, Py_ssize_t at, long long value) except -1


cdef class PlainPackets(PacketBytes):
    cdef StreamPayloads _payloads
    cdef bint _cuts
    cdef public HeaderCursor cursor
    cdef Py_ssize_t _cut_at
    cdef long long _packet
    cdef dict _known, _known_macs

    cdef int _write_all(self, const long long[::1] numbers, long long[::1] offsets,
        long long[::1] sizes) except -1
    @cython.locals(kind=cython.longlong, header_end=cython.Py_ssize_t)
    cdef _write(self, long long row)
    cdef long long _begin(self, long long row) except? FAILED
    cpdef ethernet(self, Py_ssize_t at, Py_ssize_t header_end)
    @cython.locals(at=cython.Py_ssize_t, header_end=cython.Py_ssize_t, old_checksum=cython.longlong)
    cdef long long _ipv4(self) except? FAILED
    @cython.locals(at=cython.Py_ssize_t, next_at=cython.Py_ssize_t, header_end=cython.Py_ssize_t,
        size=cython.longlong, is_fragment=cython.bint)
    cdef long long _ipv6(self) except? FAILED
    @cython.locals(addresses=Addresses)
    cdef Addresses _addresses(self, Py_ssize_t at, Py_ssize_t size)
    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t)
    cdef long long _inside(self, long long kind, Addresses addresses) except? FAILED
    cdef _tcp(self, Py_ssize_t at, Py_ssize_t end, Addresses addresses)
    cdef _tcp_rest(self, Py_ssize_t at, Py_ssize_t payload_at, Py_ssize_t end, Addresses addresses)
    @cython.locals(sequence=cython.longlong)
    cdef int _payload(self, Py_ssize_t at, Py_ssize_t payload_at, Py_ssize_t length,
        Addresses addresses) except -1


cdef long long ones_sum(const unsigned char[::1] data, Py_ssize_t begin, Py_ssize_t end) except? FAILED
cpdef long long right_checksum(long long total, long long old_checksum) except? FAILED
