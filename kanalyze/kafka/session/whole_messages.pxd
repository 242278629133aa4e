# The C types of whole_messages.py.
cimport cython

from kanalyze.kafka.codec.machine cimport (bytes_from, int16_in, int32_in, Machine, start_of, Tape,
    varint_at, varint_width)
from kanalyze.kafka.codec.machine cimport DONE, RUNNING
from kanalyze.kafka.codec.values cimport BodyDecoder, shared_tape, Texts
from kanalyze.kafka.framing.frame cimport CutFrame, Frame, request_header_of, RequestHeader
from kanalyze.kafka.framing.framer cimport CutFrames
from kanalyze.kafka.session.decode_plans cimport (API_VERSIONS, DecodePlan, DecodePlans,
    UNSUPPORTED_VERSION)
from kanalyze.kafka.session.exchange cimport Message, NO_ID
from kanalyze.model.streams cimport Segments

cdef int MIN_HEADER_BYTES, MAGIC_AT, CRC_AT, SUMMED_FROM, OLD_CRC_AT, OLD_SUMMED_FROM

cdef enum:
    LARGEST_BODY_BYTES = 16777216
    NOT_THERE = -9


# A request's header; the client id is at `text_at`, up to `text_end` (-1: null).
cdef struct RequestHead:
    int api_key, api_version
    long long correlation_id, body, text_at, text_end


@cython.final
cdef class WholeMessages:
    cdef DecodePlans _plans
    cdef Texts _client_ids
    cdef Tape _tape
    cdef object _crc32c, _crc32
    cdef public bint reads_bodies
    cdef readonly long long batches, checked
    cdef RequestHead _head, last_head

    @cython.locals(begin=cython.longlong)
    cdef RequestHeader header_of(self, Frame frame)
    cdef bint head(self, CutFrames cut, Py_ssize_t index, RequestHead* head) except -1
    cdef str client_id(self, CutFrames cut, Py_ssize_t index, RequestHead* head)
    @cython.locals(length=cython.longlong, end=cython.longlong)
    cdef bint _parse(self, const unsigned char* data, long long limit, RequestHead* head) except -1
    cdef Tape tape(self)
    cdef take(self, Message message, BodyDecoder decode, int read_as)
    cdef BodyDecoder request(self, CutFrames cut, Py_ssize_t index, RequestHead* head)
    @cython.locals(end=cython.longlong)
    cdef int acks(self, CutFrames cut, Py_ssize_t index, RequestHead* head) except? -7
    cdef long long correlation_id(self, CutFrames cut, Py_ssize_t index) noexcept
    cdef BodyDecoder response(self, CutFrames cut, Py_ssize_t index, int api_key, int api_version)
    cdef BodyDecoder _whole(self, CutFrames cut, Py_ssize_t index, long long at, DecodePlan plan)
    @cython.locals(index=cython.longlong, offset=cython.longlong, number=cython.longlong,
        at=cython.longlong, end=cython.longlong, begin=cython.longlong,
        joined="const unsigned char[::1]")
    cdef bint _has_right_crcs(self, CutFrame* frame, Segments segments, Machine machine) except -1


cdef bint has_checked_batches(long long api_key) noexcept
@cython.locals(start=cython.longlong, value=cython.longlong)
cdef long long _summed(object checksum, Segments segments, long long index, long long offset,
    long long begin, long long end) except -1
@cython.locals(start=cython.longlong)
cdef list _views(Segments segments, long long index, long long offset, long long begin,
    long long end)
@cython.locals(index=cython.longlong, at=cython.longlong, begin=cython.longlong,
    end=cython.longlong, start=cython.longlong)
cdef int _feed(Machine machine, CutFrame* frame, Segments segments) except -1
@cython.locals(width=cython.longlong)
cdef long long acks_at(const unsigned char* data, long long at, long long limit,
    long long version) except -1
