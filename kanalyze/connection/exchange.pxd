# The C types of exchange.py.
cimport cython

from kanalyze.protocol.codec.values cimport Taped
from kanalyze.protocol.frame cimport Frame


cdef class Peers:
    cdef public object tcp
    cdef public object client
    cdef public object broker
    cdef public object software_name
    cdef public object software_version
    cdef public object principal


cdef class Message:
    cdef public long long start_ns
    cdef public long long start_packet
    cdef public object end_ns
    cdef public object end_packet
    cdef public long long length
    cdef public Taped taped
    cdef object _values
    cdef public object version
    cdef public object data

    cdef _of_frame(self, Frame frame)


cdef class Exchange:
    cdef public Peers peers
    cdef public Message request
    cdef public Message response
    cdef public object api_key
    cdef public object api_version
    cdef public object correlation_id
    cdef public object client_id
    cdef public bint one_way
    cdef public bint malformed
    cdef public list anomalies
    cdef public object lost_ns
    cdef public object settled_packet
    cdef public object wire

    cdef _begin(
        self, Peers peers, Message request, api_key, api_version, correlation_id, client_id
    )


@cython.locals(made=Message)
cdef Message message_of(Frame frame)
@cython.locals(made=Exchange)
cdef Exchange exchange_of(
    Peers peers, Message request, api_key, api_version, correlation_id, client_id
)
