# The C types of completion.py.
cimport cython

from kanalyze.kafka.framing.frame cimport Frame
from kanalyze.kafka.session.connection_anomalies cimport frame_anomaly
from kanalyze.kafka.session.correlation cimport Correlator
from kanalyze.kafka.session.events cimport ConnectionEvents
from kanalyze.kafka.session.exchange cimport Exchange, Message, message_of
from kanalyze.kafka.session.login cimport Login
from kanalyze.kafka.session.message_bodies cimport MessageBodies
from kanalyze.kafka.session.message_reader cimport SASL_AUTHENTICATE, MessageReader
from kanalyze.kafka.session.sync_losses cimport SyncLosses
from kanalyze.kafka.session.token_ranges cimport TokenRanges


@cython.final
cdef class ExchangeCompletion:
    cdef int _broker_index
    cdef MessageReader _reader
    cdef MessageBodies _bodies
    cdef Correlator _correlator
    cdef Login _login
    cdef SyncLosses _losses
    cdef TokenRanges _tokens

    @cython.locals(message=Message, request=Message)
    cdef with_response(self, Exchange exchange, Frame frame, ConnectionEvents events)
    @cython.locals(correlator=Correlator)
    cdef _check_order(
        self, Exchange exchange, Message request, Message response, ConnectionEvents events
    )
