# The C types of exchange_builder.py.
cimport cython

from kanalyze.kafka.framing.frame cimport NO_PACKET, Frame, RequestHeader
from kanalyze.kafka.session.completion cimport ExchangeCompletion
from kanalyze.kafka.session.correlation cimport Correlator
from kanalyze.kafka.session.early_responses cimport EarlyResponses
from kanalyze.kafka.session.events cimport ConnectionEvents
from kanalyze.kafka.session.exchange cimport Exchange, Message, Peers, exchange_of, message_of
from kanalyze.kafka.session.login cimport Login
from kanalyze.kafka.session.message_bodies cimport MessageBodies
from kanalyze.kafka.session.message_reader cimport (
    API_VERSIONS,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    MessageReader,
)
from kanalyze.kafka.session.one_way cimport OneWayRequests
from kanalyze.kafka.session.sync_losses cimport SyncLosses
from kanalyze.kafka.session.token_ranges cimport TokenRanges


@cython.final
cdef class ExchangeBuilder:
    cdef int _client_index
    cdef MessageReader _reader
    cdef ExchangeCompletion _completion
    cdef object _non_messages
    cdef public OneWayRequests _one_way
    cdef public EarlyResponses _early
    cdef public long long _previous_ns
    cdef readonly Correlator correlator
    cdef readonly TokenRanges tokens
    cdef readonly SyncLosses losses
    cdef readonly MessageBodies bodies
    cdef readonly Login login

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
