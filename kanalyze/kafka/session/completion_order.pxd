# The C types of order.py.
cimport cython

from kanalyze.kafka.session.exchange cimport Exchange, Message
from kanalyze.kafka.framing.frame cimport NO_PACKET


@cython.final
cdef class Ended:
    cdef list _latest
    cdef list _exchanges

    @cython.locals(latest=cython.longlong, ended=cython.longlong, exchange=Exchange)
    cpdef add(self, list exchanges)


@cython.locals(message=Message)
cdef long long _ended(Exchange exchange) except? -1
