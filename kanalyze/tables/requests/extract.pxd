# The C types of extract.py.
cimport cython

from kanalyze.tables.requests.summaries cimport (BASE_OFFSET, BodyWalk, ERROR_CODE, ExchangeSummary,
    FetchSessionUpdate, GROUP_ID, KEY, KEY_TYPE, LAST_OFFSET, MAX_BYTES, MAX_RECORDS, MIN_BYTES,
    NO_NUMBER, PartitionColumns, RECORD_COUNT, RESPONSE_SESSION_ID, SESSION_EPOCH, SESSION_ID,
    TOPIC, TOPIC_ID, TRANSACTIONAL_ID)
from kanalyze.tables.requests.topics cimport NO_TOPIC, TopicTable
from kanalyze.kafka.session.exchange cimport Exchange, Message, NO_API

cdef int OF_PRODUCE, OF_FETCH, OF_LIST_OFFSETS, OF_OFFSET_FETCH, OF_FIND_COORDINATOR


cdef class _Extractor:
    cdef int api_key
    cdef bint delivers
    cdef object request_fields, response_fields
    cdef BodyWalk request, response


cdef class Extractors:
    cdef object _catalog
    cdef readonly TopicTable topics
    cdef dict _extractors
    cdef _Extractor _last
    cdef int _last_key
    cdef FetchSessionUpdate _session
    cdef ExchangeSummary _summary
    cdef PartitionColumns _requested, _responded, _both, _forgotten
    cdef dict _more

    @cython.locals(has_request=cython.bint, has_response=cython.bint)
    cpdef ExchangeSummary of_exchange(self, Exchange exchange)
    cdef ExchangeSummary _begin(self, int key)
    cdef _combine(self, int key, bint has_request, bint has_response)
    @cython.locals(extractor=_Extractor)
    cdef _Extractor _of(self, api_key)
    cdef _produce(self, ExchangeSummary summary, bint has_request)
    cdef _fetch(self, ExchangeSummary summary, bint has_request)
    @cython.locals(at=cython.Py_ssize_t, topic=cython.longlong, topic_id=cython.longlong)
    cdef _each_once(self, ExchangeSummary summary)
    cdef _follow_session(self, ExchangeSummary summary)


@cython.locals(column=cython.int, is_open=cython.bint)
cdef _join(PartitionColumns partitions, Py_ssize_t to, PartitionColumns source, Py_ssize_t at)
cdef _set_group(ExchangeSummary summary)
cdef _set_key(ExchangeSummary summary)
