# The C types of connection.py.
cimport cython

from kanalyze.kafka.framing.frame cimport AHEAD, Frame, prefetch_message
from kanalyze.kafka.framing.framer cimport completion_packet, CutFrames, FrameCutter
from kanalyze.kafka.session.events cimport ConnectionEvents
from kanalyze.kafka.session.exchange_builder cimport ExchangeBuilder
from kanalyze.kafka.session.resync cimport ResponseLocator
from kanalyze.model.streams cimport Segments


@cython.locals(segments=Segments, index=cython.Py_ssize_t, total=cython.longlong)
cpdef long long payload_bytes(tuple items) except -1
cpdef bint has_loss(tuple items) except -1


@cython.final
cdef class KafkaConnection:
    cdef object __weakref__
    cdef public int client_index
    cdef public FrameCutter _requests, _responses
    cdef public ResponseLocator _response_locator
    cdef public ExchangeBuilder _builder

    cpdef bint is_in_sync(self) except -1
    cpdef ConnectionEvents feed(self, tuple items)
    cpdef ConnectionEvents close(self)
    cdef _feed_responses(self, list items, CutFrames requests, ConnectionEvents events)
    @cython.locals(position=cython.Py_ssize_t, index=cython.Py_ssize_t)
    cdef _pair(self, CutFrames requests, CutFrames responses, ConnectionEvents events)
    cdef Frame _end_within(self, FrameCutter cutter, int direction, ConnectionEvents events)


cdef int _prefetch(CutFrames cut, Py_ssize_t index) except -1
