# The C types of rows.py.
cimport cython

from kanalyze.tables.records.columns cimport RecordColumns, RecordFieldRows
from kanalyze.kafka.session.exchange cimport Exchange, Message
from kanalyze.kafka.codec.values cimport BodyDecoder
from kanalyze.kafka.framing.frame cimport plain_body

cdef class _PartitionRecords:
    cdef readonly object topic, topic_id, partition, error_code, assigned_offset
    cdef readonly bytes data
    cdef readonly object first_offset
    cdef public object marked


cdef class _RequestRows:
    cdef object offsets
    cdef list capture, connection, connection_number, broker_ip, client_id
    cdef list request_packet, response_packet
    cdef list topic, topic_id, partition, record_bytes, base_offset, error_code

    @cython.locals(n=Py_ssize_t)
    cdef dict by_name(self, Py_ssize_t at)


cdef class _RecordsMessage:
    cdef _RequestRows rows
    cdef Py_ssize_t at
    cdef Message message
    cdef str api_name
    cdef object packet
    cdef bint is_produce
    cdef object other


cdef class _MessageLayout:
    cdef bytes head
    cdef int header_version
    cdef BodyDecoder decode


cdef class RecordReader:
    cdef object _catalog, _decoders, _filter, _show, _limits, _produced, _search, _schemas
    cdef bint _reads_contents
    cdef dict _layouts, _topic_ids

    @cython.locals(part=_PartitionRecords)
    cdef list _fields(self, Exchange exchange, _RequestRows rows, Py_ssize_t at, RecordColumns columns)
    @cython.locals(layout=_MessageLayout)
    cdef list _partitions(self, Exchange exchange, _RecordsMessage holder)
    cdef _PartitionRecords _part(self, _RecordsMessage holder, dict row_partitions, topic, topic_id, partition, bytes records)
    cdef _MessageLayout _make_layout(self, api_key, api_version, version)
    cdef Py_ssize_t _body(self, bytes data, _MessageLayout layout) except -1
    cdef object _topic_id(self, topic_id)
    cdef bint _is_selected(self, _PartitionRecords part) except *
    cdef RecordFieldRows _field(self, Exchange exchange, _RecordsMessage holder,
        _PartitionRecords part)
    cdef _fetched(self, Exchange exchange, _RecordsMessage holder, _PartitionRecords part)
    cpdef _transactions(self, Exchange exchange, _PartitionRecords part)
    cdef bint _is_read_committed(self, Exchange exchange) except *
    cdef _add_unread(self, _RecordsMessage holder, RecordColumns columns)


cdef bint _is_metadata(_PartitionRecords part) except *
cdef _RecordsMessage _records_message(Exchange exchange, _RequestRows rows, Py_ssize_t at)
cdef tuple _message_cells(_RecordsMessage holder, _PartitionRecords part)
