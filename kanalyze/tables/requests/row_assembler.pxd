# The C types of row_assembler.py.
cimport cython

from kanalyze.tables.columns.buffers cimport IntBuffer, WordBuffer
from kanalyze.tables.requests.extract cimport Extractors
from kanalyze.tables.requests.summaries cimport (
    BASE_OFFSET,
    CODEC,
    ERROR_CODE,
    ExchangeSummary,
    HIGH_WATERMARK,
    LAST_OFFSET,
    PARTITION,
    PartitionColumns,
    RECORD_BYTES,
    RECORD_COUNT,
)
from kanalyze.tables.requests.fetch_sessions cimport FetchSessions, FetchSession, FetchSessionUpdate
from kanalyze.tables.requests.long_polls cimport LongPollDetector, longest_wait_ms
from kanalyze.kafka.session.exchange cimport Exchange, Message, NO_API, NO_ID, NO_VERSION, Peers
from kanalyze.kafka.framing.frame cimport NO_PACKET


cdef long long _ROW_BYTES, _ITEM_BYTES, _FAR


cdef class _Api:
    cdef int wire
    cdef int name
    cdef object like
    cdef bint has_records
    cdef bint is_produce
    cdef bint is_fetch
    cdef bint waits_for_members
    cdef object error_name
    cdef dict error_codes
    cdef dict throttles


cdef class _PeersColumns:
    cdef object serial
    cdef int connection
    cdef long long connection_number
    cdef int client_ip
    cdef int broker_ip
    cdef long long client_port
    cdef long long broker_port
    cdef int software_name
    cdef int software_version
    cdef int principal


cdef class _SessionColumns:
    cdef FetchSession session
    cdef long long changes
    cdef Py_ssize_t count
    cdef int[::1] topics
    cdef int[::1] topic_ids
    cdef long long[::1] partitions


cdef class RowAssembler:
    cdef object _catalog
    cdef Extractors _extractors
    cdef object _place
    cdef bint _are_all_numbered
    cdef long long _most_bytes
    cdef readonly object names
    cdef public LongPollDetector long_polls
    cdef public FetchSessions _sessions
    cdef Py_ssize_t _rows
    cdef Py_ssize_t _last_rows
    cdef Py_ssize_t _last_parts
    cdef Py_ssize_t _room
    cdef Py_ssize_t _parts
    cdef Py_ssize_t _part_room
    cdef Py_ssize_t _errors
    cdef Py_ssize_t _error_room
    cdef Py_ssize_t _anomalies
    cdef Py_ssize_t _anomaly_room
    cdef dict _columns
    cdef list _of_rows
    cdef list _of_errors
    cdef list _of_parts
    cdef object _known_names
    cdef int _last_key
    cdef object _last_wire
    cdef _Api _last_api
    cdef dict _apis
    cdef dict _apis_07
    cdef dict _peers
    cdef dict _topic_id_codes
    cdef dict _names_by_id
    cdef dict _session_columns
    cdef int[::1] _codec_codes
    cdef WordBuffer _connection
    cdef IntBuffer _connection_number
    cdef WordBuffer _client_ip
    cdef WordBuffer _broker_ip
    cdef IntBuffer _client_port
    cdef IntBuffer _broker_port
    cdef WordBuffer _software_name
    cdef WordBuffer _software_version
    cdef WordBuffer _principal
    cdef WordBuffer _capture
    cdef WordBuffer _wire
    cdef IntBuffer _api_key
    cdef IntBuffer _api_version
    cdef WordBuffer _api_name
    cdef IntBuffer _correlation_id
    cdef WordBuffer _client_id
    cdef IntBuffer _request_start_ns
    cdef IntBuffer _request_end_ns
    cdef IntBuffer _response_start_ns
    cdef IntBuffer _response_end_ns
    cdef IntBuffer _latency_ns
    cdef IntBuffer _total_time_ns
    cdef IntBuffer _request_bytes
    cdef IntBuffer _response_bytes
    cdef IntBuffer _request_packet
    cdef IntBuffer _response_packet
    cdef WordBuffer _status
    cdef IntBuffer _error_code
    cdef WordBuffer _error_name
    cdef IntBuffer _throttle_time_ms
    cdef IntBuffer _record_count
    cdef IntBuffer _record_bytes
    cdef IntBuffer _acks
    cdef IntBuffer _max_wait_ms
    cdef IntBuffer _min_bytes
    cdef IntBuffer _waited
    cdef WordBuffer _group_id
    cdef WordBuffer _member_id
    cdef WordBuffer _transactional_id
    cdef WordBuffer _part_topic
    cdef WordBuffer _part_topic_id
    cdef IntBuffer _part_partition
    cdef IntBuffer _part_record_count
    cdef IntBuffer _part_record_bytes
    cdef IntBuffer _part_base_offset
    cdef IntBuffer _part_high_watermark
    cdef WordBuffer _part_codec
    cdef IntBuffer _part_error_code
    cdef WordBuffer _error_topic
    cdef WordBuffer _error_topic_id
    cdef IntBuffer _error_partition
    cdef IntBuffer _error_item_code
    cdef WordBuffer _error_item_name
    cdef WordBuffer _anomaly
    cdef IntBuffer _part_ends
    cdef IntBuffer _error_ends
    cdef IntBuffer _anomaly_ends

    cdef _make_columns(self)
    @cython.locals(
        at=cython.Py_ssize_t,
        peers=Peers,
        request=Message,
        response=Message,
        api=_Api,
        summary=ExchangeSummary,
        peers_columns=_PeersColumns,
    )
    cpdef add(self, Exchange exchange)
    cdef _put_head(self, Py_ssize_t at, _Api api, Exchange exchange)
    cdef Py_ssize_t _buffered_bytes(self) except -1
    @cython.locals(place=cython.Py_ssize_t)
    cpdef Py_ssize_t add_until_full(self, list exchanges, Py_ssize_t first) except -1
    @cython.locals(request=Message, response=Message)
    cpdef ExchangeSummary summary(self, Exchange exchange)
    @cython.locals(found=_PeersColumns)
    cdef _PeersColumns _put_peers(self, Py_ssize_t at, Peers peers)
    cdef _PeersColumns _new_peers(self, Peers peers)
    cdef _put_messages(self, Py_ssize_t at, Message request, Message response)
    @cython.locals(response=Message)
    cdef _put_errors(self, Py_ssize_t at, _Api api, ExchangeSummary summary, Exchange exchange)
    @cython.locals(at=cython.Py_ssize_t)
    cdef _put_error(self, _Api api, topic, topic_id, partition, code)
    cdef int _error_name_code(self, _Api api, code) except -2
    @cython.locals(at=cython.Py_ssize_t)
    cdef _put_anomaly(self, kind)
    @cython.locals(at=cython.Py_ssize_t, index=cython.Py_ssize_t, known=cython.longlong)
    cdef _put_parts(self, PartitionColumns parts)
    @cython.locals(code=cython.int)
    cdef int _codec_code(self, long long seen) except -2
    cdef object _name_of(self, topic, topic_id)
    @cython.locals(made=cython.int)
    cdef int _topic_id_code(self, topic_id) except -2
    @cython.locals(
        session=FetchSession,
        listed=_SessionColumns,
        parts=PartitionColumns,
        index=cython.Py_ssize_t,
        left=cython.Py_ssize_t,
    )
    cdef _put_unnamed(self, _PeersColumns peers, ExchangeSummary summary, FetchSessionUpdate said)
    @cython.locals(
        found=_SessionColumns, made=_SessionColumns, index=cython.Py_ssize_t, are_named=cython.bint
    )
    cdef _SessionColumns _session_columns_of(self, tuple key, FetchSession session)
    @cython.locals(at=cython.Py_ssize_t)
    cdef _put_session_partition(self, _SessionColumns listed, Py_ssize_t index)
    @cython.locals(
        known=cython.Py_ssize_t,
        count=cython.longlong,
        size=cython.longlong,
        is_counted=cython.bint,
        parts=PartitionColumns,
        index=cython.Py_ssize_t,
    )
    cdef _put_sums(self, Py_ssize_t at, _Api api, ExchangeSummary summary)
    cdef object _waited_on_purpose(
        self,
        Exchange exchange,
        _PeersColumns peers,
        _Api api,
        ExchangeSummary summary,
        Message request,
        Message response,
        request_ns,
    )
    @cython.locals(
        parts=PartitionColumns,
        index=cython.Py_ssize_t,
        column=cython.int,
        has_offset=cython.bint,
        has_end=cython.bint,
        record_bytes=cython.longlong,
        got=list,
        learned=list,
    )
    cdef object _waited_for_data(self, ExchangeSummary summary, serial, request_ns, response_ns, lost_ns)
    @cython.locals(apis=dict, found=_Api, last=_Api)
    cdef _Api _api_of(self, Exchange exchange)
    cdef _Api _new_api(self, wire, api_key)
    cdef bint _tells_throttle(self, api_key, version) except *
    cdef object _lists(self, list names, IntBuffer ends, Py_ssize_t items)
    @cython.locals(asked=IntBuffer, answered=IntBuffer, buffer=IntBuffer, at=cython.Py_ssize_t)
    cdef _number_packets(self, Py_ssize_t count)
    cdef _make_row_room(self)
    cdef Py_ssize_t _made_room(self, list names, Py_ssize_t before, Py_ssize_t least) except -1
    cdef bint _has_many_words(self) except *
    cdef _forget_words(self)


cdef long long _nearest(long long late_ns, long long early_ns) except? -1
cdef str _status(Exchange exchange, bint failed)
