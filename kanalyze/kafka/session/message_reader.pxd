# The C types of message_reader.py.
cimport cython

from kanalyze.kafka.session.decode_plans cimport DecodePlan, DecodePlans
from kanalyze.kafka.session.exchange cimport NO_VERSION
from kanalyze.kafka.session.message_checks cimport MessageChecks
from kanalyze.kafka.codec.values cimport BodyDecoder, Tape, EncodedFields, Texts
from kanalyze.kafka.codec.machine cimport int16_at, int32_at, varint_at, varint_width
from kanalyze.kafka.framing.frame cimport Frame, RequestHeader, request_header_of
from kanalyze.model.segments cimport Segments

cdef enum:
    PRODUCE = 0
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    SASL_AUTHENTICATE = 36
    UNSUPPORTED_VERSION = 35
    MIN_HEADER_BYTES = 14


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
    const unsigned char[::1] data, long long at, long long limit, long long version
) except? -7
