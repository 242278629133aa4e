# The C types of exchange.py.
cimport cython

from kanalyze.kafka.codec.values cimport EncodedFields
from kanalyze.kafka.framing.frame cimport Frame, NO_PACKET

cdef enum:
    NO_VERSION = -1
    NO_API = -32769

cdef long long NO_ID


@cython.final
cdef class Peers:
    cdef public object tcp
    cdef public object client
    cdef public object broker
    cdef public object software_name
    cdef public object software_version
    cdef public object principal


@cython.final
cdef class Message:
    cdef public long long start_ns
    cdef public long long start_packet
    cdef public long long last_ns
    cdef public long long last_packet
    cdef public long long length
    cdef public long long stream_offset
    cdef public EncodedFields encoded_fields
    cdef object _values
    cdef public int read_as
    cdef public object data
    cdef public object pieces

    cdef _of_frame(self, Frame frame)


@cython.final
cdef class Exchange:
    cdef public Peers peers
    cdef public Message request
    cdef public Message response
    cdef readonly int key
    cdef readonly int key_version
    cdef readonly long long correlation
    cdef public object client_id
    cdef public bint one_way
    cdef public bint malformed
    cdef list _anomalies
    cdef public object lost_ns
    cdef public long long previous_ns
    cdef readonly long long settled
    cdef public object wire

    cdef _begin(
        self,
        Peers peers,
        Message request,
        int key,
        int key_version,
        long long correlation,
        client_id,
    )


@cython.locals(message=Message)
cdef Message message_of(Frame frame)
@cython.locals(exchange=Exchange)
cdef Exchange exchange_of(
    Peers peers, Message request, int key, int key_version, long long correlation, client_id
)
