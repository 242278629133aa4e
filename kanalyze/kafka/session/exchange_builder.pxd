# The C types of exchange_builder.py.
cimport cython

from kanalyze.kafka.framing.frame cimport (
    CutFrame,
    Frame,
    NO_PACKET,
    request_header_of,
    RequestHeader,
)
from kanalyze.kafka.framing.framer cimport completion_packet, CutFrames
from kanalyze.kafka.session.correlation cimport Correlator, EarlyResponses, OneWayRequests
from kanalyze.kafka.session.decode_plans cimport (
    API_VERSIONS,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from kanalyze.kafka.session.events cimport ConnectionEvents, frame_anomaly, TokenRanges
from kanalyze.kafka.session.exchange cimport (
    Exchange,
    exchange_of,
    Message,
    message_of,
    NO_ID,
)
from kanalyze.kafka.session.message_reader cimport MessageBodies, MessageReader
from kanalyze.kafka.session.whole_messages cimport RequestHead, WholeMessages


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

    @cython.locals(request=Message, response=Message)
    cpdef lost_before(self, Exchange exchange)
    cpdef add(self, list losses, int direction, ConnectionEvents events)
    cpdef end_before(self, Frame frame, int direction, ConnectionEvents events)
    cpdef note_missing(self, Frame frame, int direction, Exchange exchange)


cdef class _Completion:
    cdef int _client_index
    cdef int _broker_index
    cdef MessageReader _reader
    cdef WholeMessages _whole
    cdef public OneWayRequests _one_way
    cdef public EarlyResponses _early
    cdef public long long _previous_ns
    cdef readonly Correlator correlator
    cdef readonly TokenRanges tokens
    cdef readonly SyncLosses losses
    cdef readonly MessageBodies bodies
    cdef readonly object login

    @cython.locals(frame="CutFrame*", request=Message, response=Message)
    cdef _complete(
        self, Exchange exchange, CutFrames cut, Py_ssize_t index, ConnectionEvents events
    )
    @cython.locals(asked=cython.longlong, answered=cython.longlong)
    cdef _check_order(
        self, Exchange exchange, Message request, Message response, ConnectionEvents events
    )


@cython.final
cdef class ExchangeBuilder(_Completion):
    cdef RequestHead _head

    @cython.locals(
        head="RequestHead*",
        frame="CutFrame*",
        header=RequestHeader,
        exchange=Exchange,
        key=cython.int,
        is_usual=cython.bint,
    )
    cpdef add_request(self, CutFrames cut, Py_ssize_t index, ConnectionEvents events)
    cdef _add_readable(self, Frame frame, int direction, ConnectionEvents events)
    @cython.locals(header=RequestHeader)
    cdef RequestHeader _header_of(self, Frame frame, ConnectionEvents events)
    cdef _add_pending(self, Exchange exchange, ConnectionEvents events)
    @cython.locals(
        frame="CutFrame*",
        correlation_id=cython.longlong,
        previous_ns=cython.longlong,
        exchange=Exchange,
        request=Message,
    )
    cpdef add_response(self, CutFrames cut, Py_ssize_t index, ConnectionEvents events)
    cdef Exchange _match(self, long long packet, long long correlation_id, ConnectionEvents events)


@cython.locals(cut=CutFrames)
cdef CutFrames _cut_of(Frame frame)
