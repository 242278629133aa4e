# The C types of kafka.py.
cimport cython

from kanalyze.kafka.session.exchange cimport (
    NO_API,
    NO_VERSION,
    Exchange,
    Message,
    Peers,
    exchange_of,
    message_of,
)
from kanalyze.kafka.session.connection_anomalies cimport Findings
from kanalyze.kafka.session.one_way cimport OneWayRequests
from kanalyze.kafka.session.correlation cimport Pairing
from kanalyze.kafka.session.message_reader cimport (
    API_VERSIONS,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Body,
    MessageReader,
)
from kanalyze.kafka.codec.values cimport Tape
from kanalyze.kafka.framing.frame cimport Frame
from kanalyze.kafka.framing.framer cimport FrameCutter
from kanalyze.kafka.framing.headers cimport RequestHeader

cdef enum:
    LARGEST_BODY_BYTES = 16777216


@cython.final
cdef class KafkaConnection:
    cdef object __weakref__
    cdef public Peers peers
    cdef public int _client_side
    cdef public MessageReader _reader
    cdef public object _locate
    cdef public FrameCutter _requests
    cdef public object _locate_response
    cdef public FrameCutter _responses
    cdef public Pairing _pairing
    cdef public OneWayRequests _one_way
    cdef public list _early
    cdef public long long _early_bytes
    cdef public list _unread
    cdef public list _begun
    cdef public tuple _losses
    cdef public object _keep
    cdef public object _mechanism
    cdef public object _login
    cdef public list _done
    cdef public Findings _findings
    cdef public object _lost_ns

    cpdef feed(self, items)
    @cython.locals(
        position=cython.Py_ssize_t, count=cython.Py_ssize_t, requests=list, ended=cython.longlong,
        request=Frame, response=Frame
    )
    cdef _in_order(self)
    @cython.locals(reader=MessageReader, header=RequestHeader, key=cython.int, exchange=Exchange)
    cdef _request(self, Frame frame)
    @cython.locals(message=Message, exchange=Exchange, body=Body)
    cdef Exchange _begin_exchange(self, Frame frame, RequestHeader header)
    cdef Exchange _exchange(self, Message request, RequestHeader header)
    cdef _wait(self, Exchange exchange)
    cdef _take_given_up(self)
    cdef bint _is_too_large(self, Frame frame, int api_key) except -1
    cdef _take_body(self, Frame frame, Exchange exchange, Message message, Body body, int side)
    @cython.locals(
        index=cython.Py_ssize_t,
        exchange=Exchange,
        request=Message,
        cells=cython.longlong,
        arena_bytes=cython.longlong,
    )
    cdef _settle(self)
    cdef _hide_in_request(self, Frame frame, RequestHeader header)
    cdef _hide_in_response(self, Frame frame, int api_version)
    @cython.locals(correlation_id=cython.longlong, exchange=Exchange)
    cdef _response(self, Frame frame)
    @cython.locals(
        message=Message, request=Message, body=Body, key=cython.int, version=cython.int
    )
    cdef _answer(self, Exchange exchange, Frame frame)
    cdef _end(self, Exchange exchange)
    cdef bint _wants_bytes(self, int api_key) except -1
    cdef _note_losses(self, FrameCutter cutter, int side)
