# The C types of row_assembler.py.
cimport cython

from kanalyze.tables.columns.buffers cimport IntBuffer, WordBuffer
from kanalyze.tables.requests.extract cimport Extractors
from kanalyze.tables.requests.summaries cimport (ExchangeSummary, PartitionColumns, RECORD_BYTES,
    RECORD_COUNT)
from kanalyze.tables.requests.long_polls cimport (FetchSession, FetchSessions, LongPollDetector,
    NOT_KNOWN)
from kanalyze.tables.requests.row_columns cimport (ApiDirectory, ErrorWriter, FieldWriter,
    ListWriter, PacketNumbers, PartitionWriter, PartsWriter, PeersWriter, RowApi, RowPeers,
    SessionListWriter, TopicLookup)
from kanalyze.tables.requests.topics cimport TopicTable
from kanalyze.kafka.session.exchange cimport Exchange, Message, NO_API, NO_ID, NO_VERSION
from kanalyze.kafka.framing.frame cimport AHEAD, NO_PACKET, prefetch_message
from kanalyze.model.streams cimport NO_TIME


cdef inline void prefetch_object(object made) noexcept:
    prefetch_message(<const unsigned char*> <void*> made)


@cython.locals(soon=Exchange)
cdef int _prefetch(list exchanges, Py_ssize_t index) except -1

cdef long long _ROW_BYTES, _ITEM_BYTES, _FAR, _NS_PER_MS


cdef class RowAssembler:
    cdef Extractors _extractors
    cdef long long _most_bytes
    cdef readonly object names
    cdef public LongPollDetector long_polls
    cdef public FetchSessions _sessions
    cdef Py_ssize_t _rows, _last_rows, _room
    cdef dict _columns
    cdef list _of_rows, _names_of_columns, _partition_writers
    cdef TopicTable _topics
    cdef long long _generation
    cdef TopicLookup _lookup
    cdef PeersWriter _peers
    cdef ApiDirectory _apis
    cdef FieldWriter _fields
    cdef PartitionWriter _partitions
    cdef SessionListWriter _session_lists
    cdef ErrorWriter _errors
    cdef ListWriter _anomalies
    cdef PartsWriter _latency_parts
    cdef PacketNumbers _packets
    cdef WordBuffer _wire
    cdef IntBuffer _api_key, _api_version
    cdef WordBuffer _api_name
    cdef IntBuffer _correlation_id
    cdef WordBuffer _client_id
    cdef IntBuffer _request_start_ns, _request_end_ns, _response_start_ns, _response_end_ns
    cdef IntBuffer _latency_ns, _total_time_ns, _request_bytes, _response_bytes, _request_packet
    cdef IntBuffer _response_packet
    cdef WordBuffer _status
    cdef IntBuffer _error_code
    cdef WordBuffer _error_name
    cdef IntBuffer _record_count, _record_bytes, _waited
    cdef WordBuffer _anomaly

    @cython.locals(at=cython.Py_ssize_t)
    cpdef add(self, Exchange exchange)
    cdef _put_head(self, Py_ssize_t at, RowApi api, Exchange exchange)
    @cython.locals(items=cython.Py_ssize_t)
    cdef Py_ssize_t _buffered_bytes(self) except -1
    @cython.locals(index=cython.Py_ssize_t)
    cpdef Py_ssize_t add_until_full(self, list exchanges, Py_ssize_t first) except -1
    cpdef ExchangeSummary summary(self, Exchange exchange)
    cdef _put_messages(self, Py_ssize_t at, Message request, Message response)
    cdef _put_errors(self, Py_ssize_t at, RowApi api, ExchangeSummary summary, Message response)
    @cython.locals(with_bytes=cython.Py_ssize_t, count=cython.longlong, size=cython.longlong,
        is_read=cython.bint, index=cython.Py_ssize_t)
    cdef _put_sums(self, Py_ssize_t at, RowApi api, ExchangeSummary summary, Message response)
    cdef _put_waited(self, Py_ssize_t at, Exchange exchange, long long serial, RowApi api,
        ExchangeSummary summary, Message request, Message response)
    cdef bint _has_many_words(self) except *


@cython.locals(has_lost=cython.bint, lost_ns=cython.longlong, is_read=cython.bint)
cdef int _was_held_back(LongPollDetector long_polls, Exchange exchange, long long serial,
    RowApi api, ExchangeSummary summary, Message request, Message response) except -2
cdef long long _nearest(long long late_ns, long long early_ns) except? -1
cdef str _status(Exchange exchange, Message request, Message response, bint failed)
