# The C types of extract.py.
cimport cython

from kanalyze.tables.requests.body_walk cimport BodyWalk
from kanalyze.tables.requests.summaries cimport (
    BASE_OFFSET,
    CODEC,
    ERROR_CODE,
    Facts,
    HIGH_WATERMARK,
    LAST_OFFSET,
    PARTITION,
    Parts,
    RECORD_BYTES,
    RECORD_COUNT,
)
from kanalyze.tables.requests.fetch_sessions cimport SessionFacts
from kanalyze.tables.requests.long_polls cimport longest_wait_ms
from kanalyze.kafka.codec.values cimport TapeCursor, Taped


cdef enum:
    OF_PRODUCE = 0
    OF_FETCH = 1
    OF_LIST_OFFSETS = 2
    OF_OFFSET_FETCH = 9
    OF_FIND_COORDINATOR = 10


cdef class _Extractor:
    cdef int api_key
    cdef bint delivers
    cdef object request_fields
    cdef object response_fields
    cdef BodyWalk request
    cdef BodyWalk response


cdef class Extractors:
    cdef object _catalog
    cdef TapeCursor _cursor
    cdef dict _extractors
    cdef Facts _facts
    cdef Parts _asked
    cdef Parts _answered
    cdef Parts _both
    cdef Parts _forgotten

    @cython.locals(extractor=_Extractor)
    cpdef wanted(self, api_key, kind)
    @cython.locals(
        extractor=_Extractor, facts=Facts, asked=Parts, answered=Parts, way=cython.int
    )
    cpdef Facts facts(self, api_key, Taped request, Taped response)
    @cython.locals(extractor=_Extractor)
    cdef _Extractor _of(self, api_key)
    @cython.locals(
        asked=Parts,
        answered=Parts,
        both=Parts,
        count=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
        place=cython.Py_ssize_t,
    )
    cdef _produce(self, Facts facts, bint was_asked)
    @cython.locals(
        asked=Parts, answered=Parts, count=cython.Py_ssize_t, at=cython.Py_ssize_t
    )
    cdef _fetch(self, Facts facts, bint was_asked)
    @cython.locals(
        asked=Parts, answered=Parts, both=Parts, parts=Parts, known=dict, at=cython.Py_ssize_t
    )
    cdef _each_once(self, Facts facts)


@cython.locals(column=cython.int, is_open=cython.bint)
cdef _join(Parts parts, Py_ssize_t to, Parts others, Py_ssize_t at)
cdef SessionFacts _session(Facts facts, Parts asked, Parts forgotten)
@cython.locals(at=cython.Py_ssize_t)
cdef list _places(Parts parts)
cdef _take_group(Facts facts)
cdef _take_key(Facts facts)
