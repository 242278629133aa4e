# The C types of latency_parts.py.
cimport cython

from kanalyze.kafka.framing.frame cimport NO_PACKET
from kanalyze.kafka.session.exchange cimport Exchange, Message
from kanalyze.model.tcp cimport NetworkPath, RoundTripHistory
from kanalyze.model.streams cimport NO_TIME
from kanalyze.tables.columns.buffers cimport IntBuffer, WordBuffer
from kanalyze.tables.requests.row_columns cimport RowPeers

cdef enum:
    NEAR_NS = 1000000
    MIN_RATIO = 4
    MAX_LATE_NS = 100000000

cdef long long _FAR_NS


cdef class PartsWriter:
    cdef WordBuffer _capture_point
    cdef IntBuffer _request_send_ns
    cdef IntBuffer _broker_network_ns
    cdef IntBuffer _retransmission_wait_ns
    cdef IntBuffer _pipeline_wait_ns
    cdef IntBuffer _broker_time_ns
    cdef IntBuffer _response_send_ns
    cdef IntBuffer _client_network_ns
    cdef IntBuffer _retransmitted_packets
    cdef IntBuffer _zero_windows
    cdef IntBuffer _waited_ns
    cdef long long _rest_ns
    cdef long long _network_ns

    cdef put_no_wait(self, Py_ssize_t at)
    @cython.locals(
        rest_ns=cython.longlong,
        waited_ns=cython.longlong,
        is_known=cython.bint,
        is_within=cython.bint,
    )
    cdef bint put_wait(
        self, Py_ssize_t at, Message request, Message response, long long limit_ns
    ) except -1
    @cython.locals(
        path=NetworkPath,
        to_broker=RoundTripHistory,
        to_client=RoundTripHistory,
        broker_ns=cython.longlong,
        client_ns=cython.longlong,
        is_ended=cython.bint,
        retransmitted=cython.longlong,
    )
    cdef put(
        self, Py_ssize_t at, RowPeers peers, Exchange exchange, Message request, Message response
    )
    @cython.locals(
        is_ended=cython.bint,
        first=cython.longlong,
        last=cython.longlong,
        span_ns=cython.longlong,
        retransmitted=cython.longlong,
        zero_windows=cython.longlong,
    )
    cdef long long _put_counts(
        self, Py_ssize_t at, NetworkPath path, Message request, Message response
    ) except? -2
    @cython.locals(
        request=Message,
        response=Message,
        unexplained_ns=cython.longlong,
        network_ns=cython.longlong,
        wait_ns=cython.longlong,
        resent_ns=cython.longlong,
        queued_ns=cython.longlong,
    )
    cdef _put_latency(
        self,
        Py_ssize_t at,
        RowPeers peers,
        Exchange exchange,
        long long broker_ns,
        bint has_resent,
    )


cpdef object capture_point(long long client_ns, long long broker_ns)
cdef bint _is_near(Message request, Message response) except -1
