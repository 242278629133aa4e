# The C types of tracker.py.
cimport cython

from kanalyze.kafka.session.connection cimport has_loss, KafkaConnection, payload_bytes
from kanalyze.kafka.session.events cimport ConnectionEvents, SessionEvents
from kanalyze.kafka.session.exchange cimport Exchange, Peers
from kanalyze.model.streams cimport StreamUpdate
from kanalyze.model.tcp cimport TcpConnection


@cython.final
cdef class OpenKafkaConnection:
    cdef readonly object connection
    cdef public int client_index
    cdef public str protocol
    cdef public long long dropped_bytes
    cdef public object client_id
    cdef public long long requests, buffered_bytes

    @cython.locals(exchange=Exchange)
    cpdef count(self, exchanges)


cdef class KafkaConnections:
    cdef object _reader, _locator, _keep
    cdef long long _most_bytes
    cdef bint _count_requests
    cdef long long _buffered_bytes
    cdef public dict _by_serial

    cpdef OpenKafkaConnection find(self, serial)
    cpdef ConnectionEvents begin(self, TcpConnection tcp, start)
    cdef OpenKafkaConnection _open(self, TcpConnection tcp, start, bint from_start)
    cpdef ConnectionEvents read(self, OpenKafkaConnection opened, tuple streams)
    @cython.locals(exchange=Exchange, events=ConnectionEvents)
    cpdef ConnectionEvents close(self, serial, OpenKafkaConnection opened, packet)
    cpdef account(self, OpenKafkaConnection opened, SessionEvents events)


cdef class ConnectionTracker:
    cdef public object _undecided
    cdef public KafkaConnections _kafka
    cdef public dict _others
    cdef readonly object servers
    cdef bint _collect_summaries
    cdef public object _expiry_ns
    cdef tuple _settings
    cdef public object counts

    cpdef SessionEvents feed(self, updates)
    cdef _feed(self, StreamUpdate update, SessionEvents events)
    cdef _decide(self, StreamUpdate update, SessionEvents events)
    cdef _finish_step(self, StreamUpdate update, OpenKafkaConnection kafka, ConnectionEvents found,
        SessionEvents events)


cdef bint _is_from_start(TcpConnection tcp, start) except -1
cdef ConnectionEvents _read_streams(KafkaConnection connection, tuple streams)
