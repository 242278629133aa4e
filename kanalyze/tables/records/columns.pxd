# The C types of columns.py.
cimport cython

from kanalyze.tables.columns.buffers cimport IntBuffer, WordBuffer
from kanalyze.kafka.records.batches cimport RecordBatch, RecordCursor, wrapped_sum

cdef int MAX_ROWS, MAX_BYTES, HEADER_BYTES, MIN_ROOM, FIRST_PRINTABLE, LAST_PRINTABLE, TAB, LF, CR
cdef int DELETE, PLAIN, UNDECIDED, NO_TEXT


cdef long long LARGEST_INT64


cdef class OffsetColumns:
    cdef IntBuffer _is_acquired, _delivery_count, _produced_time, _delay
    cdef list _produced
    cdef object _acquired
    cdef long long _fetched_ns, _produced_from, _produced_end, _produced_ns, _acquired_from
    cdef long long _acquired_end, _deliveries

    cpdef match(self, long long fetched_ns, list produced, acquired)
    cdef int put(self, Py_ssize_t at, long long offset) except -1
    cdef _find_produced(self, long long offset)


cdef class RecordColumns:
    cdef dict _buffers
    cdef list _names, _header_names, _of_rows, _shared
    cdef IntBuffer _index, _offset, _timestamp, _key_bytes, _value_bytes, _header_count, _sequence
    cdef IntBuffer _crc_ok
    cdef WordBuffer _control_type, _key, _key_encoding, _value, _value_encoding, _header_key
    cdef WordBuffer _header_value, _header_encoding
    cdef IntBuffer _header_ends, _key_schema_id, _value_schema_id
    cdef WordBuffer _key_schema_guid, _value_schema_guid, _trace_id, _parent_span_id, _name
    cdef IntBuffer _name_ends
    cdef dict _name_codes
    cdef Py_ssize_t _names_written, _name_room
    cdef readonly OffsetColumns by_offset
    cdef WordBuffer _found_in
    cdef Py_ssize_t _rows, _room, _headers, _header_room, _first
    cdef long long _bytes
    cdef tuple _cells, _more_cells
    cdef list _wrong_crcs
    cdef RecordBatch _batch
    cdef object _show
    cdef long long _longest
    cdef bint _is_assigned, _has_offset
    cdef long long _assigned

    cdef bint _is_full(self)
    cpdef begin(self, tuple cells, tuple more_cells=*, RecordBatch batch=*, assigned=*,
        bint is_assigned=*)
    @cython.locals(count=cython.longlong)
    cpdef long long add_all(self, RecordCursor cursor, long long index, long long most) except -1
    cpdef add(self, long long index, record, control_type, found_in=*, bint hides_value=*)
    cpdef add_none(self)
    cpdef drain(self)
    cdef int _put_numbers(self, Py_ssize_t at, long long index, long long offset) except -1
    cdef int _put_schema_ids(self, Py_ssize_t at, long long of_key, long long of_value) except -1
    cdef _put_header_facts(self, Py_ssize_t at, tuple headers)
    cdef _put_known_headers(self, Py_ssize_t at, tuple headers)
    cdef int _put_ends(self, Py_ssize_t at) except -1
    cdef int _put_sizes(self, Py_ssize_t at, long long key_bytes, long long value_bytes,
        long long headers) except -1
    cdef Py_ssize_t _put_text(self, WordBuffer text, WordBuffer encoding, Py_ssize_t at,
        bytes data) except -1
    @cython.locals(at=cython.Py_ssize_t, size=cython.Py_ssize_t)
    cdef _put_header(self, bytes key, bytes value)
    @cython.locals(at=cython.Py_ssize_t)
    cdef Py_ssize_t _next_row(self) except -1
    cdef _end(self)


cdef _fill(list buffers, Py_ssize_t column, tuple cells, Py_ssize_t first, Py_ssize_t end)
cdef int _fill_words(WordBuffer buffer, Py_ssize_t first, Py_ssize_t end, word) except -1
cdef int _fill_ints(IntBuffer buffer, Py_ssize_t first, Py_ssize_t end, long long value) except -1
@cython.locals(view="const unsigned char[::1]")
cdef int _kind_of(bytes data) except -1


cdef class RecordFieldRows:
    cdef object _batches
    cdef list _problems
    cdef tuple _cells
    cdef object _assigned
    cdef bint _is_produce, _has_base_offsets
    cdef long long _index, _records_left
    cdef RecordBatch _batch
    cdef RecordCursor _cursor
    cdef object _records, _fetched, _search
    cdef bint _may_have_secrets
    cdef object _is_aborted

    cpdef bint add_to(self, RecordColumns columns) except *
    @cython.locals(batch=RecordBatch)
    cdef bint _begin_batch(self, RecordColumns columns) except *
    @cython.locals(count=cython.longlong, is_secret=cython.bint)
    cdef bint _add_records(self, RecordColumns columns) except *
    cdef _end_batch(self, RecordColumns columns)
    cdef tuple _batch_cells(self, RecordBatch batch, timestamp_type, problem)
    cdef _aborted(self, RecordBatch batch)


cpdef add_problem(RecordColumns columns, tuple cells, problem)
