# The C types of resync.py.
cimport cython

from kanalyze.kafka.codec.machine cimport int16_at, int32_at
from kanalyze.kafka.framing.frame cimport Frame, frame_in_segment, RequestHeader
from kanalyze.kafka.framing.framer cimport FrameLocator
from kanalyze.kafka.session.message_reader cimport MessageReader
from kanalyze.model.streams cimport Segments, StreamUpdate
from kanalyze.model.tcp cimport TcpConnection

cdef int MAX_CANDIDATES, HEAD_BYTES, LARGEST_FRAME_BYTES, TOP_SIZE_BYTE, FIRST_PRINTABLE, DELETE
cdef int PRODUCE, CONTROLLED_SHUTDOWN, LAST_OLD_PRODUCE, OLD_PRODUCE_HEAD_BYTES, MIN_TOPIC_BYTES
cdef int LONGEST_TOPIC_BYTES, FILTER_BITS


cdef long long _LONGEST_CLIENT_ID_BYTES


cdef class RequestCandidates:
    cdef int[::1] _highest
    cdef unsigned char[::1] _has_high_byte

    @cython.locals(index=cython.longlong)
    cpdef list find(self, const unsigned char[::1] data, long long limit)
    cdef bint _may_be(self, const unsigned char[::1] data, long long index) except -1


@cython.locals(first=cython.int)
cdef bint _may_have_client_id(const unsigned char[::1] data, long long index,
    long long size) except -1
@cython.locals(body=cython.longlong, acks_high=cython.int)
cdef bint _may_be_old_produce(const unsigned char[::1] data, long long index,
    long long size) except -1
@cython.locals(index=cython.longlong)
cdef list _responses(const unsigned char[::1] data, long long limit, pending,
    unsigned char[::1] table)


cdef class RequestLocator(FrameLocator):
    cdef object _reader, _most_unconfirmed_bytes, _catalog, _candidates_in
    cdef long long _last_near

    @cython.locals(reader=MessageReader, header=RequestHeader)
    cpdef RequestHeader first_request(self, list items)
    @cython.locals(direction=cython.int)
    cpdef int client_at_first_sight(self, StreamUpdate update, client_index) except -2
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
