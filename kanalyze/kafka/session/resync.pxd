# The C types of resync.py.
cimport cython

from kanalyze.kafka.codec.machine cimport int16_at, int32_at
from kanalyze.kafka.framing.frame cimport Frame, frame_in_segment, RequestHeader
from kanalyze.kafka.framing.framer cimport FrameLocator
from kanalyze.kafka.session.message_reader cimport MessageReader
from kanalyze.model.streams cimport Segments, StreamUpdate
from kanalyze.model.tcp cimport TcpConnection

cdef enum:
    MAX_CANDIDATES = 4096
    HEAD_BYTES = 14
    LARGEST_FRAME_BYTES = 104857600
    TOP_SIZE_BYTE = 6
    FIRST_PRINTABLE = 0x20
    DELETE = 0x7F
    PRODUCE = 0
    CONTROLLED_SHUTDOWN = 7
    LAST_OLD_PRODUCE = 2
    OLD_PRODUCE_HEAD_BYTES = 26
    MIN_TOPIC_BYTES = 6
    LONGEST_TOPIC_BYTES = 255
    FILTER_BITS = 4096


cdef long long _LONGEST_CLIENT_ID_BYTES


cdef class RequestCandidates:
    cdef int[::1] _highest
    cdef unsigned char[::1] _has_high_byte

    @cython.locals(index=cython.longlong)
    cpdef list find(self, const unsigned char[::1] data, long long limit)
    @cython.locals(size=cython.longlong)
    cdef bint _may_be(self, const unsigned char[::1] data, long long index) except -1


@cython.locals(length=cython.longlong, room=cython.longlong, first=cython.int)
cdef bint _may_have_client_id(const unsigned char[::1] data, long long index,
    long long size) except -1
@cython.locals(body=cython.longlong, acks_high=cython.int, count=cython.longlong,
    name_length=cython.longlong)
cdef bint _may_be_old_produce(const unsigned char[::1] data, long long index,
    long long size) except -1
@cython.locals(index=cython.longlong, number=cython.longlong, size=cython.longlong)
cdef list _responses(const unsigned char[::1] data, long long limit, pending,
    unsigned char[::1] table)


cdef class RequestLocator(FrameLocator):
    cdef object _reader, _most_unconfirmed_bytes, _catalog, _candidates_in
    cdef long long _last_near

    @cython.locals(frame=Frame, reader=MessageReader, header=RequestHeader)
    cpdef RequestHeader first_request(self, list items)
    @cython.locals(tcp=TcpConnection, direction=cython.int, items=list, other=list)
    cpdef int client_at_first_sight(self, StreamUpdate update, client_index) except -2
    @cython.locals(header=RequestHeader)
    cdef bint _proves_kafka(self, list items) except -1
    @cython.locals(key=cython.longlong)
    cpdef bint is_near(self, int api_key, int api_version) except -1


cdef class ResponseLocator(FrameLocator):
    cdef object _reader, _pending
    cdef public bint _at_first_byte


@cython.locals(segments=Segments, index=cython.Py_ssize_t, length=cython.longlong,
    size=cython.longlong)
cdef Frame _first_frame(list items)
@cython.locals(segments=Segments, index=cython.Py_ssize_t, length=cython.longlong,
    begin=cython.longlong)
cpdef bint may_begin_tls(list items) except -1
cdef int _int16_in(Frame frame, long long at) except? -7
