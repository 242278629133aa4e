# The C types of message_reader.py.
cimport cython

from kanalyze.kafka.codec.machine cimport int16_at, start_of, Tape
from kanalyze.kafka.codec.values cimport BodyDecoder
from kanalyze.kafka.framing.frame cimport Frame, request_header_of, RequestHeader, rest_of
from kanalyze.kafka.framing.framer cimport CutFrames
from kanalyze.kafka.session.decode_plans cimport (API_VERSIONS, DecodePlan, DecodePlans,
    MessageChecks, PRODUCE, SessionFields, UNSUPPORTED_VERSION)
from kanalyze.kafka.session.events cimport ConnectionEvents, frame_anomaly
from kanalyze.kafka.session.exchange cimport Exchange, Message, NO_API, NO_VERSION
from kanalyze.kafka.session.whole_messages cimport (acks_at, has_checked_batches,
    LARGEST_BODY_BYTES, NOT_THERE, RequestHead, WholeMessages)
from kanalyze.model.streams cimport Segments

@cython.final
cdef class DecodedBody:
    cdef readonly BodyDecoder decode
    cdef readonly int read_as
    cdef readonly object problem, detail
    cdef readonly long long left_over
    cdef public object batches


cdef class MessageReader:
    cdef readonly object _catalog
    cdef bint _checks_crc
    cdef readonly DecodePlans _plans
    cdef object _failures
    cdef readonly WholeMessages whole
    cdef readonly MessageChecks checks
    cdef readonly SessionFields fields

    cpdef RequestHeader request_header(self, Frame frame)
    cpdef DecodedBody request_body(self, Frame frame, RequestHeader header)
    cpdef bint has_api(self, int api_key) except -1
    cpdef acks(self, Frame frame, RequestHeader header)
    cpdef long long correlation_id(self, Frame frame) except? -1
    @cython.locals(at=cython.longlong, body=DecodedBody)
    cpdef DecodedBody response_body(self, Frame frame, int api_key, int api_version)
    @cython.locals(end=cython.longlong, exact=cython.bint)
    cdef DecodedBody _body(self, Frame frame, long long at, DecodePlan plan)
    cdef _by_superseded(self, DecodePlan plan, Frame frame, long long at)


cdef bytes _rest_of(Frame frame, long long at)
cdef DecodedBody _known_failure(Frame frame, long long at, DecodePlan plan)
cdef bint _note_batches(DecodePlan plan) except -1
cdef _check_batches(DecodedBody body, Frame frame, DecodePlan plan)
@cython.locals(data="const unsigned char[::1]", end=cython.longlong)
cdef long long _acks(Frame frame, long long at, long long version) except? -7


@cython.final
cdef class MessageBodies:
    cdef MessageReader _reader
    cdef WholeMessages _whole
    cdef object _keep
    cdef list _undetached
    cdef public long long decoded_bytes, undecoded_bytes
    cdef object _batches

    @cython.locals(body=DecodedBody, acks=cython.longlong, key=cython.int, version=cython.int)
    cdef bint read_request(self, CutFrames cut, Py_ssize_t index, RequestHead* head,
        Exchange exchange, int direction, ConnectionEvents events) except -1
    @cython.locals(body=DecodedBody)
    cdef read_response(self, CutFrames cut, Py_ssize_t index, Exchange exchange, int direction,
        ConnectionEvents events)
    cpdef counted_batches(self)
    cpdef bint keeps_bytes(self, int api_key) except -1
    @cython.locals(exchange=Exchange, request=Message, cells=cython.longlong,
        arena_bytes=cython.longlong)
    cpdef detach_pending(self)
    cdef DecodedBody _too_large(self, Frame frame, int api_key)
    cdef _record_whole(self, CutFrames cut, Py_ssize_t index, Exchange exchange, Message message,
        BodyDecoder decode, int version)
    cdef _record(self, Frame frame, Exchange exchange, Message message, DecodedBody body,
        int direction, ConnectionEvents events)
