# The C types of events.py.
cimport cython

from kanalyze.kafka.framing.frame cimport NO_PACKET, Frame
from kanalyze.kafka.session.exchange cimport Exchange, Message


@cython.final
cdef class ConnectionEvents:
    cdef public list exchanges, anomalies, token_bytes

    cpdef extend(self, ConnectionEvents later)


@cython.final
cdef class SessionEvents:
    cdef public list exchanges, anomalies, token_bytes, summaries
    cdef public dict closed_clients
    cdef int _parts

    @cython.locals(exchange=Exchange)
    cpdef add(self, ConnectionEvents events)


@cython.locals(exchange=Exchange, first=cython.longlong, last=cython.longlong,
    packet=cython.longlong, before="long long[::1]", index=cython.Py_ssize_t)
cdef list _in_order(list exchanges)
@cython.locals(exchange=Exchange)
cdef list _completed_of(list exchanges)
cdef long long _completion_packet(Exchange exchange) except? -1


cpdef frame_anomaly(kind, tcp, Frame frame, int direction, detail=*, Exchange exchange=*)
