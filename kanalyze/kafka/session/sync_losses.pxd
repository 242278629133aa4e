# The C types of sync_losses.py.
cimport cython

from kanalyze.kafka.framing.frame cimport Frame
from kanalyze.kafka.session.correlation cimport Correlator
from kanalyze.kafka.session.events cimport ConnectionEvents
from kanalyze.kafka.session.exchange cimport Exchange
from kanalyze.kafka.session.token_ranges cimport TokenRanges


@cython.final
cdef class SyncLosses:
    cdef object _tcp
    cdef int _client_index
    cdef Correlator _correlator
    cdef TokenRanges _tokens
    cdef public tuple _open
    cdef readonly bint has_open
    cdef public object lost_ns
    cdef public tuple _times

    cpdef lost_before(self, Exchange exchange)
    cpdef add(self, list losses, int direction, ConnectionEvents events)
    cpdef end_before(self, Frame frame, int direction, ConnectionEvents events)
    cpdef note_missing(self, Frame frame, int direction, Exchange exchange)
