# The C types of message_checks.py.
cimport cython

from kanalyze.kafka.codec.values cimport BodyDecoder
from kanalyze.kafka.framing.frame cimport Frame, RequestHeader
from kanalyze.kafka.session.decode_plans cimport DecodePlan, DecodePlans

cdef enum:
    API_VERSIONS = 18
    UNSUPPORTED_VERSION = 35


@cython.final
cdef class MessageChecks:
    cdef DecodePlans _plans
    cdef object _decoders
    cdef dict _request_checks

    @cython.locals(check=BodyDecoder)
    cpdef bint whole_request_fits(self, Frame frame, RequestHeader header) except -1
    @cython.locals(plan=DecodePlan)
    cpdef bint confirms_response(self, Frame frame, int api_key, int api_version) except -1
