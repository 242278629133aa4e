# The C types of exchange.py.
cimport cython

from cpython.object cimport PyObject

from kanalyze.kafka.codec.machine cimport Machine, Tape
from kanalyze.kafka.codec.values cimport BodyDecoder, EncodedFields, new_fields, Shape, TapeReader
from kanalyze.kafka.framing.frame cimport CutFrame, Frame, NO_PACKET
from kanalyze.model.tcp cimport TcpConnection

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(PyObject* op)


# No message and no exchange is part of a cycle, and there are very many: the garbage collector need
# not look.
cdef inline void untrack(object made) noexcept:
    PyObject_GC_UnTrack(<PyObject*> made)


cdef enum:
    NO_VERSION = -1
    NO_API = -32769

cdef long long NO_ID


@cython.final
cdef class Peers:
    cdef public TcpConnection tcp
    cdef public object client, broker, software_name, software_version, principal


@cython.final
cdef class Message:
    cdef public long long start_ns, start_packet, last_ns, last_packet, length, stream_offset
    cdef readonly long long cells_at, cells, arena_at, arena_bytes
    cdef public int read_as
    cdef Tape tape
    cdef TapeReader reader
    cdef Shape shape
    cdef object _values
    cdef public object data, pieces

    cdef _begin(self, long long start_ns, long long start_packet, long long last_ns,
        long long last_packet, long long length, long long stream_offset)
    cdef EncodedFields _encoded(self)
    cdef set_fields(self, EncodedFields encoded)
    cdef take(self, BodyDecoder decode, int read_as)
    cdef move(self, Tape tape)


cdef Message message_of(CutFrame* frame)
@cython.locals(message=Message)
cdef Message _message(long long start_ns, long long start_packet, long long last_ns,
    long long last_packet, long long length, long long stream_offset)


@cython.final
cdef class Exchange:
    cdef public Peers peers
    cdef public Message request, response
    cdef readonly int key, key_version
    cdef readonly long long correlation
    cdef public object client_id
    cdef public bint one_way, malformed
    cdef list _anomalies
    cdef public object lost_ns
    cdef public long long previous_ns
    cdef readonly long long settled
    cdef public long long completed
    cdef public object wire

    cdef _begin(self, Peers peers, Message request, int key, int key_version, long long correlation,
        client_id)


@cython.locals(exchange=Exchange)
cdef Exchange exchange_of(Peers peers, Message request, int key, int key_version,
    long long correlation, client_id)
