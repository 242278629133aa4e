# The C types of exchange_builder.py.
cimport cython

from kanalyze.kafka.framing.frame cimport Frame, NO_PACKET, RequestHeader
from kanalyze.kafka.session.correlation cimport Correlator, EarlyResponses, OneWayRequests
from kanalyze.kafka.session.decode_plans cimport (
    API_VERSIONS,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from kanalyze.kafka.session.events cimport ConnectionEvents, frame_anomaly, TokenRanges
from kanalyze.kafka.session.exchange cimport Exchange, exchange_of, Message, message_of, Peers
from kanalyze.kafka.session.login cimport Login
from kanalyze.kafka.session.message_reader cimport MessageBodies, MessageReader


@cython.final
cdef class SyncLosses:
    cdef object _tcp
    cdef int _client_index
    cdef Correlator _correlator
    cdef TokenRanges _tokens
    cdef public tuple _open
    cdef readonly bint has_open
    cdef public object lost_ns
    cdef public tuple _times

    cpdef lost_before(self, Exchange exchange)
    cpdef add(self, list losses, int direction, ConnectionEvents events)
    cpdef end_before(self, Frame frame, int direction, ConnectionEvents events)
    cpdef note_missing(self, Frame frame, int direction, Exchange exchange)


cdef class _Completion:
    cdef int _client_index
    cdef int _broker_index
    cdef MessageReader _reader
    cdef public OneWayRequests _one_way
    cdef public EarlyResponses _early
    cdef public long long _previous_ns
    cdef readonly Correlator correlator
    cdef readonly TokenRanges tokens
    cdef readonly SyncLosses losses
    cdef readonly MessageBodies bodies
    cdef readonly Login login

    @cython.locals(message=Message, request=Message)
    cdef _complete(self, Exchange exchange, Frame frame, ConnectionEvents events)
    cdef _check_order(
        self, Exchange exchange, Message request, Message response, ConnectionEvents events
    )


@cython.final
cdef class ExchangeBuilder(_Completion):
    @cython.locals(header=RequestHeader, message=Message, exchange=Exchange, key=cython.int)
    cpdef add_request(self, Frame frame, ConnectionEvents events)
    cdef _add_readable(self, Frame frame, int direction, ConnectionEvents events)
    @cython.locals(header=RequestHeader)
    cdef RequestHeader _header_of(self, Frame frame, ConnectionEvents events)
    cdef _add_pending(self, Exchange exchange, ConnectionEvents events)
    @cython.locals(
        correlation_id=cython.longlong, previous_ns=cython.longlong, exchange=Exchange
    )
    cpdef add_response(self, Frame frame, ConnectionEvents events)
    cdef Exchange _match(self, Frame frame, long long correlation_id, ConnectionEvents events)


cdef Exchange _exchange_with(Peers peers, Message request, RequestHeader header)
