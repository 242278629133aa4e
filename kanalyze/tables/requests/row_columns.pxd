# The C types of row_columns.py.
cimport cython

from kanalyze.kafka.framing.frame cimport NO_PACKET
from kanalyze.kafka.session.exchange cimport Exchange, Message, NO_API, Peers
from kanalyze.model.streams cimport NO_TIME
from kanalyze.model.tcp cimport NetworkPath, RoundTripHistory
from kanalyze.tables.columns.buffers cimport IntBuffer, WordBuffer
from kanalyze.kafka.codec.machine cimport doubled
from kanalyze.tables.requests.long_polls cimport FetchSession
from kanalyze.tables.requests.summaries cimport (BASE_OFFSET, BASE_SEQUENCE, CELLS, CODEC,
    ERROR_CODE, ExchangeSummary, FIRST_TEXT, HIGH_WATERMARK, PARTITION, PartitionColumns,
    PREFERRED_READ_REPLICA, PRODUCER_EPOCH, PRODUCER_ID, RECORD_BYTES, RECORD_COUNT, TOPIC,
    TOPIC_ID)
from kanalyze.tables.requests.topics cimport FAILED, KEY_CELLS, KeyTable, NO_TOPIC, TopicTable

cdef int NEAR_NS, MIN_RATIO, MAX_LATE_NS

cdef class RowPeers:
    cdef long long serial
    cdef int connection
    cdef long long connection_number
    cdef int client_ip, broker_ip
    cdef long long client_port, broker_port
    cdef int software_name, software_version, principal
    cdef NetworkPath path
    cdef int client_index
    cdef bint is_one_host
    cdef long long client_ns, broker_ns
    cdef int capture_point
    cdef bint is_proxied
    cdef int proxy, proxied_client_ip
    cdef long long proxied_client_port
    cdef int proxied_target


cdef class PeersWriter:
    cdef dict _known
    cdef WordBuffer _connection
    cdef IntBuffer _connection_number
    cdef WordBuffer _client_ip, _broker_ip
    cdef IntBuffer _client_port, _broker_port
    cdef WordBuffer _software_name, _software_version, _principal, _proxy, _proxied_client_ip
    cdef IntBuffer _proxied_client_port
    cdef WordBuffer _proxied_target

    @cython.locals(cells=RowPeers)
    cdef RowPeers put(self, Py_ssize_t at, Peers peers)
    cdef RowPeers _look_up(self, Peers peers)


cdef class RowApi:
    cdef int wire, name
    cdef object like
    cdef bint has_records, is_produce, is_fetch, waits_for_members, never_waits
    cdef object error_name
    cdef dict error_codes
    cdef int no_error


cdef class ApiDirectory:
    cdef object _catalog
    cdef WordBuffer _wire, _api_name, _error_name
    cdef dict _apis, _other_apis
    cdef RowApi _last
    cdef int _last_key
    cdef object _last_wire

    @cython.locals(api=RowApi)
    cdef RowApi of(self, Exchange exchange)
    cdef RowApi _new(self, wire, api_key)
    cdef int error_name_code(self, RowApi api, code) except -2
    cdef int no_error_code(self, RowApi api) except -2


cdef class FieldWriter:
    cdef long long[::1] _number_fields, _text_fields
    cdef list _number_buffers, _text_buffers

    @cython.locals(known=cython.longlong, field=cython.longlong, ints=IntBuffer, words=WordBuffer)
    cdef put(self, Py_ssize_t at, ExchangeSummary summary)


cdef class ListWriter:
    cdef dict _fields
    cdef IntBuffer _ends
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room, _last_count

    @cython.locals(at=cython.Py_ssize_t)
    cdef Py_ssize_t next_item(self) except -1
    cdef make_row_room(self, Py_ssize_t rows)
    cdef int end_row(self, Py_ssize_t at) except -1
    cdef object drain(self, Py_ssize_t rows)


cdef class TopicLookup:
    cdef object _names
    cdef TopicTable _topics
    cdef readonly long long changes
    cdef long long[::1] _by_id

    cdef refresh(self)
    @cython.locals(number=cython.longlong)
    cdef long long number(self, long long topic, long long topic_id) except FAILED


cdef class ErrorWriter(ListWriter):
    cdef object _names
    cdef WordBuffer _topic, _topic_id
    cdef IntBuffer _partition, _code
    cdef WordBuffer _name

    cdef put(self, topic, topic_id, partition, code, name)


cdef class PartitionWriter(ListWriter):
    cdef TopicTable _topics
    cdef TopicLookup _lookup
    cdef object _names
    cdef WordBuffer _topic, _topic_id
    cdef IntBuffer _partition, _record_count, _record_bytes, _base_offset, _high_watermark
    cdef WordBuffer _codec
    cdef IntBuffer _error_code, _producer_id, _producer_epoch, _base_sequence, _preferred
    cdef long long[::1] _topic_codes, _topic_id_codes
    cdef int[::1] _codec_codes

    @cython.locals(index=cython.Py_ssize_t, begin=cython.Py_ssize_t, columns=cython.longlong)
    cdef put_all(self, PartitionColumns partitions)
    @cython.locals(room=cython.Py_ssize_t, listed=cython.Py_ssize_t, most=cython.Py_ssize_t,
        named=cython.Py_ssize_t, entry=cython.Py_ssize_t, at=cython.longlong, topic=cython.longlong,
        topic_id=cython.longlong, partition=cython.longlong)
    cdef put_session(self, FetchSession session, PartitionColumns partitions)
    cdef Py_ssize_t _put_topic(self, long long topic, long long topic_id) except -1
    cdef int _codec_code(self, long long codec) except -2
    cdef int _topic_code(self, long long topic) except -2
    cdef int _topic_id_code(self, long long topic_id) except -2


@cython.final
cdef class SessionListWriter(PartitionWriter):
    cdef IntBuffer _list
    cdef long long _next_number

    @cython.locals(index=cython.Py_ssize_t, columns=cython.longlong)
    cdef bint put(self, Py_ssize_t at, FetchSession session, PartitionColumns partitions) except -1
    @cython.locals(entry=cython.Py_ssize_t, at=cython.longlong)
    cdef _put_list(self, FetchSession session)


@cython.final
cdef class PacketNumbers:
    cdef object _locations
    cdef WordBuffer _capture
    cdef IntBuffer _requests, _responses

    cpdef number(self, Py_ssize_t count)

    @cython.locals(firsts="long long[::1]", shifts="long long[::1]", codes="long long[::1]",
        run=cython.Py_ssize_t, code=cython.longlong, none=cython.longlong)
    cdef bint _number_runs(self, Py_ssize_t count, long long low, long long high) except -1

    cdef _number_each(self, Py_ssize_t count)


cdef long long _FAR_NS


cdef class PartsWriter:
    cdef WordBuffer _capture_point
    cdef IntBuffer _request_send_ns, _broker_network_ns, _retransmission_wait_ns, _pipeline_wait_ns
    cdef IntBuffer _broker_time_ns, _response_send_ns, _client_network_ns, _retransmitted_packets
    cdef IntBuffer _zero_windows, _waited_ns
    cdef long long _rest_ns, _network_ns

    cdef put_no_wait(self, Py_ssize_t at)
    @cython.locals(rest_ns=cython.longlong, waited_ns=cython.longlong, is_known=cython.bint,
        is_within=cython.bint)
    cdef bint put_wait(self, Py_ssize_t at, Exchange exchange, Message request, Message response,
        long long limit_ns) except -1
    @cython.locals(to_broker=RoundTripHistory, to_client=RoundTripHistory,
        broker_ns=cython.longlong, client_ns=cython.longlong, is_ended=cython.bint)
    cdef put(self, Py_ssize_t at, RowPeers peers, Exchange exchange, Message request,
        Message response)
    @cython.locals(is_ended=cython.bint)
    cdef long long _put_counts(self, Py_ssize_t at, NetworkPath path, Message request,
        Message response) except? FAILED
    @cython.locals(unexplained_ns=cython.longlong, network_ns=cython.longlong,
        wait_ns=cython.longlong, resent_ns=cython.longlong, queued_ns=cython.longlong)
    cdef _put_latency(self, Py_ssize_t at, RowPeers peers, Exchange exchange, Message request,
        Message response, long long broker_ns, bint has_resent)


cpdef object capture_point(long long client_ns, long long broker_ns)
cdef bint _is_near(Message request, Message response) except -1
