# The C types of message_reader.py.
cimport cython

from kanalyze.kafka.codec.machine cimport (
    int16_at,
    int16_in,
    int32_at,
    start_of,
    Tape,
    varint_at,
    varint_width,
)
from kanalyze.kafka.codec.values cimport BodyDecoder, EncodedFields, Texts
from kanalyze.kafka.framing.frame cimport Frame, request_header_of, RequestHeader
from kanalyze.kafka.session.decode_plans cimport (
    API_VERSIONS,
    DecodePlan,
    DecodePlans,
    MessageChecks,
    PRODUCE,
    UNSUPPORTED_VERSION,
)
from kanalyze.kafka.session.events cimport ConnectionEvents, frame_anomaly
from kanalyze.kafka.session.exchange cimport Exchange, Message, NO_API, NO_VERSION
from kanalyze.model.streams cimport Segments

cdef enum:
    MIN_HEADER_BYTES = 14
    LARGEST_BODY_BYTES = 16777216


@cython.final
cdef class DecodedBody:
    cdef readonly EncodedFields encoded_fields
    cdef readonly int read_as
    cdef readonly object problem
    cdef readonly object detail
    cdef readonly long long left_over
    cdef public object batches


cdef class MessageReader:
    cdef readonly object _catalog
    cdef bint _checks_crc
    cdef readonly DecodePlans _plans
    cdef object _failures
    cdef Texts _client_ids
    cdef Tape _tape
    cdef readonly MessageChecks checks
    cdef readonly object fields

    cpdef RequestHeader request_header(self, Frame frame)
    @cython.locals(
        segments=Segments,
        data="const unsigned char[::1]",
        begin=cython.longlong,
        limit=cython.longlong,
        length=cython.longlong,
        end=cython.longlong,
        api_key=cython.int,
        version=cython.int,
        correlation_id=cython.longlong,
        plan=DecodePlan,
    )
    cdef RequestHeader _usual_header(self, Frame frame)
    @cython.locals(plan=DecodePlan, body=DecodedBody)
    cpdef DecodedBody request_body(self, Frame frame, RequestHeader header)
    cpdef bint has_api(self, int api_key) except -1
    cpdef acks(self, Frame frame, RequestHeader header)
    @cython.locals(segments=Segments)
    cpdef long long correlation_id(self, Frame frame) except? -1
    @cython.locals(plan=DecodePlan, at=cython.longlong, body=DecodedBody)
    cpdef DecodedBody response_body(self, Frame frame, int api_key, int api_version)
    @cython.locals(decode=BodyDecoder, end=cython.longlong, exact=cython.bint, encoded=EncodedFields)
    cdef DecodedBody _body(self, Frame frame, long long at, DecodePlan plan)
    @cython.locals(encoded=EncodedFields)
    cdef EncodedFields _encoded(self, BodyDecoder decode)
    @cython.locals(decode=BodyDecoder)
    cdef _by_superseded(self, DecodePlan plan, Frame frame, long long at)


@cython.locals(body=DecodedBody)
cdef DecodedBody _read_body(EncodedFields encoded, version)
@cython.locals(decode=BodyDecoder)
cdef bint _note_batches(DecodePlan plan) except -1
@cython.locals(decode=BodyDecoder)
cdef _summing(Frame frame, DecodePlan plan, bint is_checked)
@cython.locals(decode=BodyDecoder, encoded=EncodedFields)
cdef _check_batches(DecodedBody body, Frame frame, DecodePlan plan)
@cython.locals(segments=Segments)
cdef bint _begins_with_code(Frame frame, int code) except -1
@cython.locals(segments=Segments)
cdef bint _has_no_tags(Frame frame) except -1
@cython.locals(
    segments=Segments,
    data="const unsigned char[::1]",
    begin=cython.longlong,
    limit=cython.longlong,
    end=cython.longlong,
)
cdef long long _acks(Frame frame, long long at, long long version) except? -7
@cython.locals(width=cython.longlong)
cdef long long _acks_at(
    const unsigned char* data, long long at, long long limit, long long version
) except? -7


@cython.final
cdef class MessageBodies:
    cdef MessageReader _reader
    cdef object _keep
    cdef list _undetached
    cdef public long long decoded_bytes
    cdef public long long undecoded_bytes
    cdef public object batches

    @cython.locals(body=DecodedBody)
    cdef read_request(
        self,
        Frame frame,
        RequestHeader header,
        Exchange exchange,
        Message message,
        int direction,
        ConnectionEvents events,
    )
    @cython.locals(body=DecodedBody, key=cython.int, version=cython.int)
    cdef read_response(
        self, Frame frame, Exchange exchange, Message message, int direction, ConnectionEvents events
    )
    cpdef bint keeps_bytes(self, int api_key) except -1
    @cython.locals(
        index=cython.Py_ssize_t,
        exchange=Exchange,
        request=Message,
        cells=cython.longlong,
        arena_bytes=cython.longlong,
    )
    cpdef detach_pending(self)
    cdef bint _keeps_records(self, int api_key) except -1
    cdef _record(
        self,
        Frame frame,
        Exchange exchange,
        Message message,
        DecodedBody body,
        int direction,
        ConnectionEvents events,
    )
