# The C types of tracker.py.
cimport cython

from kanalyze.kafka.session.events cimport ConnectionEvents, SessionEvents
from kanalyze.kafka.session.kafka_connections cimport KafkaConnections, OpenKafkaConnection
from kanalyze.kafka.session.stream_items cimport payload_bytes


cdef class ConnectionTracker:
    cdef public object _undecided
    cdef public KafkaConnections _kafka
    cdef public dict _others
    cdef readonly object servers
    cdef bint _collect_summaries
    cdef public object _expiry_ns
    cdef tuple _settings
    cdef public object counts

    @cython.locals(events=SessionEvents)
    cpdef SessionEvents feed(self, updates)
    @cython.locals(kafka=OpenKafkaConnection)
    cdef _feed(self, update, SessionEvents events)
    cdef _finish_step(
        self, update, OpenKafkaConnection kafka, ConnectionEvents found, SessionEvents events
    )
