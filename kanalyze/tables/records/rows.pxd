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


cdef class _PartitionCells:
    cdef readonly object topic, topic_id, partition, record_bytes, base_offset, error_code


cdef class _RequestRows:
    cdef list _cells, _items
    cdef object _offsets

    @cython.locals(cells=list, capture=list, connection=list, number=list, broker_ip=list,
        client_id=list, request_packets=list, response_packets=list)
    cpdef _RequestCells row(self, Py_ssize_t at)
    @cython.locals(topics=list, topic_ids=list, partitions=list, sizes=list, offsets=list,
        codes=list, n=cython.Py_ssize_t)
    cpdef list items(self, Py_ssize_t at)


cdef class _RequestCells:
    cdef tuple connection
    cdef object broker_ip, client_id, request_packet, response_packet
    cdef _RequestRows _rows
    cdef Py_ssize_t _at

    cdef list partitions(self)


cdef class _RecordsMessage:
    cdef _RequestCells row
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

    @cython.locals(holder=_RecordsMessage, part=_PartitionRecords, parts=list, fields=list)
    cdef list _fields(self, Exchange exchange, _RequestCells row, RecordColumns columns)
    @cython.locals(layout=_MessageLayout, body=cython.Py_ssize_t, parts=list, row_partitions=dict,
        partitions=list, part=_PartitionRecords)
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
    @cython.locals(message=Message)
    cdef bint _is_read_committed(self, Exchange exchange) except *
    @cython.locals(part=_PartitionRecords)
    cdef _add_unread(self, _RecordsMessage holder, RecordColumns columns)


cdef bint _is_metadata(_PartitionRecords part) except *
cdef dict _by_name(list items)
cdef _RecordsMessage _records_message(Exchange exchange, _RequestCells row)
cdef _RecordsMessage _other_message(Exchange exchange, _RequestCells row)
@cython.locals(row=_RequestCells)
cdef tuple _message_cells(_RecordsMessage holder, _PartitionRecords part)
