# The C types of reader.py.
cimport cython

from kanalyze.kafka.session.exchange cimport NO_VERSION
from kanalyze.kafka.codec.decoder cimport BodyDecoder
from kanalyze.kafka.codec.machine cimport int16_at, int32_at, varint_at, varint_width
from kanalyze.kafka.codec.values cimport Tape, Taped, Texts
from kanalyze.kafka.framing.frame cimport Frame
from kanalyze.kafka.framing.headers cimport RequestHeader, request_header_of
from kanalyze.model.segments cimport Segments

cdef enum:
    PRODUCE = 0
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    SASL_AUTHENTICATE = 36
    UNSUPPORTED_VERSION = 35
    LEAST_HEADER_BYTES = 14


@cython.final
cdef class Body:
    cdef readonly Taped taped
    cdef readonly int read_as
    cdef readonly object problem
    cdef readonly object detail


@cython.final
cdef class _Plan:
    cdef readonly long long key
    cdef readonly int header_version
    cdef readonly BodyDecoder decode
    cdef readonly object version
    cdef readonly bint known
    cdef readonly object definition
    cdef readonly BodyDecoder superseded


cdef class MessageReader:
    cdef readonly object _catalog
    cdef object _decoders
    cdef object _wanted
    cdef readonly dict _request_plans
    cdef dict _response_plans
    cdef _Plan _last_request_plan
    cdef _Plan _last_response_plan
    cdef Texts _client_ids
    cdef Tape _tape
    cdef dict _known
    cdef object _nothing
    cdef long long _explained_bytes
    cdef dict _explanations
    cdef dict _checks
    cdef dict _field_decoders

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
        plan=_Plan,
    )
    cdef RequestHeader _usual_header(self, Frame frame)
    cpdef Body request_body(self, Frame frame, RequestHeader header)
    @cython.locals(last=_Plan)
    cpdef bint knows(self, int api_key) except -1
    cpdef acks(self, Frame frame, RequestHeader header)
    @cython.locals(check=BodyDecoder, left=cython.longlong)
    cpdef bint takes_up(self, Frame frame, RequestHeader header) except -1
    @cython.locals(segments=Segments)
    cpdef long long correlation_id(self, Frame frame) except? -1
    @cython.locals(plan=_Plan, at=cython.longlong)
    cpdef Body response_body(self, Frame frame, int api_key, int api_version)
    @cython.locals(plan=_Plan, last=_Plan, key=cython.longlong)
    cdef _Plan _request_plan(self, int api_key, int version)
    @cython.locals(plan=_Plan, last=_Plan, key=cython.longlong)
    cdef _Plan _response_plan(self, int api_key, int version)
    @cython.locals(decode=BodyDecoder, end=cython.longlong, exact=cython.bint, taped=Taped)
    cdef Body _body(self, Frame frame, long long at, _Plan plan)
    @cython.locals(length=cython.longlong)
    cdef str _explained(self, Frame frame, long long at, _Plan plan, str reason)
    @cython.locals(taped=Taped)
    cdef Taped _take(self, BodyDecoder decode)
    @cython.locals(decode=BodyDecoder)
    cdef _by_superseded(self, _Plan plan, Frame frame, long long at)


@cython.locals(made=Body)
cdef Body _read_body(Taped taped, version)
cdef long long _key_of(long long api_key, long long version)
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
