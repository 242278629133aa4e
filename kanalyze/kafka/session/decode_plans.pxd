# The C types of decode_plans.py.
cimport cython

from kanalyze.kafka.codec.values cimport BodyDecoder
from kanalyze.kafka.framing.frame cimport Frame, RequestHeader, rest_of

cdef enum:
    PRODUCE = 0
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    SASL_AUTHENTICATE = 36
    UNSUPPORTED_VERSION = 35


@cython.final
cdef class DecodePlan:
    cdef readonly long long key
    cdef readonly int header_version
    cdef readonly BodyDecoder decode
    cdef readonly object version
    cdef readonly bint known
    cdef readonly object definition
    cdef readonly BodyDecoder superseded
    cdef public dict failures


@cython.final
cdef class DecodePlans:
    cdef object _catalog, _decoders, _selection
    cdef readonly dict _requests
    cdef dict _responses
    cdef DecodePlan _last_request, _last_response
    cdef dict _known_apis

    @cython.locals(plan=DecodePlan)
    cpdef DecodePlan request(self, int api_key, int version)
    @cython.locals(plan=DecodePlan)
    cpdef DecodePlan response(self, int api_key, int version)
    cpdef bint has_api(self, int api_key) except -1


cdef long long _key_of(long long api_key, long long version)


@cython.final
cdef class MessageChecks:
    cdef DecodePlans _plans

    @cython.locals(plan=DecodePlan, check=BodyDecoder)
    cpdef bint whole_request_fits(self, Frame frame, RequestHeader header) except -1
    cpdef bint confirms_response(self, Frame frame, int api_key, int api_version) except -1


@cython.final
cdef class SessionFields:
    cdef object _catalog, _decoders
    cdef DecodePlans _plans
    cdef dict _remembered

    cpdef software(self, Frame frame, RequestHeader header)
