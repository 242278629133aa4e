# The C types of records.py.
cimport cython

from kanalyze.tables.records.columns cimport RecordColumns
from kanalyze.tables.records.field_rows cimport RecordField
from kanalyze.kafka.session.exchange cimport Exchange, Message
from kanalyze.kafka.codec.decoder cimport BodyDecoder
from kanalyze.kafka.framing.plain_header cimport plain_body


cdef class _Part:
    cdef readonly object topic
    cdef readonly object topic_id
    cdef readonly object partition
    cdef readonly object error_code
    cdef readonly object assigned_offset
    cdef readonly bytes data
    cdef readonly object first_offset


cdef class _Item:
    cdef readonly object topic
    cdef readonly object topic_id
    cdef readonly object partition
    cdef readonly object record_bytes
    cdef readonly object base_offset
    cdef readonly object error_code


cdef class _Rows:
    cdef list _facts
    cdef list _items
    cdef object _offsets

    @cython.locals(
        capture=list, connection=list, number=list, client_id=list, asked=list, answered=list
    )
    cpdef _Facts row(self, Py_ssize_t at)
    @cython.locals(
        topics=list,
        topic_ids=list,
        partitions=list,
        sizes=list,
        offsets=list,
        codes=list,
        n=cython.Py_ssize_t,
    )
    cpdef list items(self, Py_ssize_t at)


cdef class _Facts:
    cdef tuple connection
    cdef object client_id
    cdef object request_packet
    cdef object response_packet
    cdef object _rows
    cdef Py_ssize_t _at

    cdef list partitions(self)


cdef class _Place:
    cdef _Facts row
    cdef Message message
    cdef str api_name
    cdef object packet
    cdef bint is_produce
    cdef bint is_kafka07


cdef class _Plan:
    cdef bytes head
    cdef int header_version
    cdef BodyDecoder decode


cdef class RecordReader:
    cdef object _catalog
    cdef object _decoders
    cdef tuple _topics
    cdef object _show
    cdef object _limits
    cdef dict _plans
    cdef dict _topic_ids

    @cython.locals(place=_Place, part=_Part, parts=list, fields=list)
    cdef list _fields(self, Exchange exchange, _Facts row, RecordColumns made)
    @cython.locals(
        plan=_Plan, body=cython.Py_ssize_t, found=list, known=dict, partitions=list
    )
    cdef list _parts(self, Exchange exchange, _Place place)
    cdef _Part _part(self, _Place place, dict known, topic, topic_id, partition, bytes records)
    cdef _Plan _make_plan(self, api_key, api_version, version)
    cdef Py_ssize_t _body(self, bytes data, _Plan plan) except -1
    cdef object _topic_id(self, topic_id)
    cdef bint _wants(self, _Part part) except *
    cdef RecordField _field(self, _Place place, _Part part)
    @cython.locals(part=_Part)
    cdef _add_unread(self, _Place place, RecordColumns made)


cdef _Facts _facts_of(row)
cdef dict _by_name(list items)
cdef _Place _place(Exchange exchange, _Facts row)
cdef _Place _place_07(Exchange exchange, _Facts row)
@cython.locals(row=_Facts)
cdef tuple _where(_Place place, _Part part)
