# The C types of tracker.py.
cimport cython

from kanalyze.kafka.session.exchange cimport Exchange, Peers
from kanalyze.kafka.session.completion_order cimport Ended
from kanalyze.model.segments cimport Segments


cdef class _Kafka:
    cdef public object connection
    cdef public int client_side
    cdef public str protocol
    cdef public long long given_up_bytes
    cdef public object client_id
    cdef public long long requests
    cdef public long long held_bytes


cdef class ConnectionTracker:
    cdef public object _reader
    cdef public object _is_broker
    cdef public object _keep
    cdef public object _judge
    cdef public object _locate
    cdef public dict _undecided
    cdef public dict _kafka
    cdef public dict _ignored
    cdef public list _anomalies
    cdef public list _tokens
    cdef public list _ended
    cdef public dict _ending_sides
    cdef public dict _ended_sides
    cdef public long long _most_undecided_bytes
    cdef public long long _held_bytes
    cdef public long long _most_kafka_bytes
    cdef public long long _kafka_bytes
    cdef public list _overdue
    cdef public object counts

    @cython.locals(ended=Ended)
    cpdef Ended feed_batch(self, updates)
    @cython.locals(kafka=_Kafka)
    cpdef list feed(self, update)
    cdef list _read(self, _Kafka kafka, tuple items)
    cdef list _go_on(self, update, _Kafka kafka, list exchanges)
    cdef list _decide(self, update)
    @cython.locals(peers=Peers, kafka=_Kafka)
    cdef list _begin(self, update, found, tuple in_sync, tuple items, long long given_up_bytes=*)
    cdef _account(self, _Kafka kafka, bint is_over)
    @cython.locals(kafka=_Kafka, exchange=Exchange)
    cdef list _end_kafka(self, tcp, packet)


@cython.locals(segments=Segments, index=cython.Py_ssize_t, total=cython.longlong)
cdef long long _payload_bytes(tuple items) except -1
