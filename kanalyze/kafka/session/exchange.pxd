# The C types of exchange.py.
cimport cython

from cpython.object cimport PyObject

from kanalyze.kafka.codec.machine cimport Machine, Tape
from kanalyze.kafka.codec.values cimport BodyDecoder, EncodedFields, new_fields, Shape, TapeReader
from kanalyze.kafka.framing.frame cimport CutFrame, Frame, NO_PACKET

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(PyObject* op)


# No exchange is part of a cycle, and there are very many: the garbage collector need not look.
cdef inline void untrack(Exchange exchange) noexcept:
    PyObject_GC_UnTrack(<PyObject*> exchange)

# What is known of a message. Of the fields that were read, `cells` are on the tape from `cells_at`
# on (-1: there are none), and `arena_bytes` in its arena from `arena_at` on.
cdef struct MessageRecord:
    long long start_ns
    long long start_packet
    long long last_ns
    long long last_packet
    long long length
    long long stream_offset
    long long cells_at
    long long cells
    long long arena_at
    long long arena_bytes
    int read_as
    bint is_there

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
    cdef MessageRecord req
    cdef MessageRecord resp
    cdef Tape req_tape
    cdef Tape resp_tape
    cdef TapeReader req_reader
    cdef TapeReader resp_reader
    cdef Shape req_shape
    cdef Shape resp_shape
    cdef Message _request
    cdef Message _response
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
    cdef public long long completed
    cdef public object wire

    cdef _begin(self, Peers peers, int key, int key_version, long long correlation, client_id)
    # What is known of the messages; NULL for none. Tape, reader and shape of what was read of them
    # are the members beside the records; they are right once these were called.
    @cython.locals(encoded=EncodedFields)
    cdef MessageRecord* request_record(self) except? NULL
    @cython.locals(encoded=EncodedFields)
    cdef MessageRecord* response_record(self) except? NULL
    @cython.locals(record="MessageRecord*")
    cpdef Message request_message(self)
    @cython.locals(record="MessageRecord*")
    cpdef Message response_message(self)
    cdef set_request_fields(self, EncodedFields encoded, int read_as)
    cdef set_response_fields(self, EncodedFields encoded, int read_as)
    cdef read_request(self, BodyDecoder decode, int read_as)
    cdef read_response(self, BodyDecoder decode, int read_as)
    @cython.locals(
        record="MessageRecord*",
        encoded=EncodedFields,
        at=cython.longlong,
        arena_at=cython.longlong,
    )
    cdef move_request(self, Tape tape)


cdef int set_times(MessageRecord* record, CutFrame* frame) except -1
cdef int _set_message(MessageRecord* record, Message message) except -1
@cython.locals(encoded=EncodedFields)
cdef int _set_fields(MessageRecord* record, EncodedFields encoded) except -1
@cython.locals(machine=Machine)
cdef int _set_body(MessageRecord* record, Machine machine, int read_as) except -1
@cython.locals(message=Message, encoded=EncodedFields)
cdef Message _message_of(MessageRecord* record, Tape tape, TapeReader reader, Shape shape)
@cython.locals(exchange=Exchange)
cdef Exchange exchange_of(
    Peers peers, int key, int key_version, long long correlation, client_id
)
