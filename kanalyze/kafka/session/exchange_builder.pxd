# The C types of exchange_builder.py.
cimport cython

from kanalyze.kafka.framing.frame cimport (CutFrame, Frame, NO_PACKET, request_header_of,
    RequestHeader)
from kanalyze.kafka.framing.framer cimport completion_packet, CutFrames
from kanalyze.kafka.session.correlation cimport Correlator, EarlyResponses, OneWayRequests
from kanalyze.kafka.session.decode_plans cimport (API_VERSIONS, PRODUCE, SASL_AUTHENTICATE,
    SASL_HANDSHAKE)
from kanalyze.kafka.session.events cimport ConnectionEvents, frame_anomaly
from kanalyze.kafka.session.exchange cimport (Exchange, exchange_of, Message, message_of, NO_ID,
    Peers)
from kanalyze.kafka.session.message_reader cimport MessageBodies, MessageReader
from kanalyze.kafka.session.whole_messages cimport RequestHead, WholeMessages

cdef int IN_SYNC, LOGIN, LOST_IN_LOGIN


@cython.final
cdef class SyncLosses:
    cdef object _tcp, _tokens
    cdef int _client_index
    cdef Correlator _correlator
    cdef public tuple _open
    cdef public object lost_ns
    cdef public tuple _times

    cpdef lost_before(self, Exchange exchange)
    cpdef bint is_waiting(self) except -1
    cpdef bint is_open(self, int direction) except -1
    cpdef end_before(self, Frame frame, int direction, ConnectionEvents events)
    cpdef note_missing(self, Frame frame, int direction, Exchange exchange)


@cython.final
cdef class SlowPath:
    cdef int _client_index, _broker_index
    cdef MessageReader _reader
    cdef Correlator _correlator
    cdef MessageBodies _bodies
    cdef readonly Peers peers
    cdef object _login, _locator
    cdef readonly object tokens
    cdef readonly SyncLosses losses
    cdef readonly EarlyResponses early
    cdef readonly OneWayRequests one_way
    cdef readonly int request_state, response_state

    cdef bint is_login(self) noexcept
    cdef _note(self, int direction, event)
    @cython.locals(is_login=cython.bint)
    cdef _follow_login(self)
    cdef lose(self, list losses, int direction, ConnectionEvents events)
    cdef pass_losses(self, Frame frame, int direction, ConnectionEvents events)
    cdef close(self, ConnectionEvents events)
    cdef RequestHeader request_header(self, Frame frame, ConnectionEvents events)
    cdef follow_request(self, Frame frame, RequestHeader header, ConnectionEvents events)
    cdef follow_response(self, Exchange exchange, Frame frame)
    cdef add_unmatched(self, Frame frame, long long correlation_id, long long previous_ns,
        ConnectionEvents events)
    cdef pass_over(self, Message request, long long stream_offset, long long packet,
        ConnectionEvents events)
    cdef end_early(self, ConnectionEvents events)


cdef _end_orphan(SlowPath slow, Frame frame, packet, ConnectionEvents events)
cdef _add_no_message(SlowPath slow, Frame frame, int direction, str problem,
    ConnectionEvents events)


@cython.final
cdef class ExchangeBuilder:
    cdef int _client_index, _broker_index
    cdef MessageReader _reader
    cdef WholeMessages _whole
    cdef public long long _previous_ns
    cdef readonly Correlator correlator
    cdef readonly MessageBodies bodies
    cdef object _locator
    cdef Peers _peers
    cdef SlowPath _made_slow

    cpdef bint is_settled(self) except -1
    cdef lose(self, list losses, int direction, ConnectionEvents events)
    @cython.locals(is_usual=cython.bint)
    cpdef add_request(self, CutFrames cut, Py_ssize_t index, ConnectionEvents events)
    cdef _add_pending(self, Exchange exchange, ConnectionEvents events)
    @cython.locals(exchange=Exchange)
    cpdef add_response(self, CutFrames cut, Py_ssize_t index, ConnectionEvents events)
    cdef Exchange _match(self, long long packet, long long correlation_id, ConnectionEvents events)
    cdef _complete(self, Exchange exchange, CutFrames cut, Py_ssize_t index,
        ConnectionEvents events)
    cpdef close(self, ConnectionEvents events)


cdef _lost_before(ExchangeBuilder builder, Exchange exchange)
cdef _follow_request(ExchangeBuilder builder, Frame frame, RequestHeader header, ConnectionEvents events)
cdef SlowPath _slow(ExchangeBuilder builder)

cdef CutFrames _cut_of(Frame frame)
cdef _check_order(Correlator correlator, Exchange exchange, Message request, Message response,
    ConnectionEvents events)
