# The C types of message_bodies.py.
cimport cython

from kanalyze.kafka.codec.values cimport Tape
from kanalyze.kafka.framing.frame cimport Frame, RequestHeader
from kanalyze.kafka.session.connection_anomalies cimport frame_anomaly
from kanalyze.kafka.session.events cimport ConnectionEvents
from kanalyze.kafka.session.exchange cimport NO_API, NO_VERSION, Exchange, Message
from kanalyze.kafka.session.message_reader cimport DecodedBody, MessageReader

cdef enum:
    LARGEST_BODY_BYTES = 16777216


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
