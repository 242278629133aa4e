# The C types of login.py.
cimport cython

from kanalyze.kafka.session.exchange cimport Peers
from kanalyze.kafka.session.decode_plans cimport API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kanalyze.kafka.session.message_reader cimport MessageReader


@cython.final
cdef class Login:
    cdef public Peers peers
    cdef public object raw
    cdef public object _mechanism
    cdef public MessageReader _reader
    cdef public object _locator
