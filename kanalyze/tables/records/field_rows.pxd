# The C types of field_rows.py.
cimport cython

from kanalyze.tables.records.columns cimport RecordColumns
from kanalyze.kafka.records.batches cimport RecordBatch, RecordCursor


cdef class RecordFieldRows:
    cdef object _batches
    cdef list _problems
    cdef tuple _cells
    cdef object _shown
    cdef object _assigned
    cdef bint _is_produce
    cdef bint _has_base_offsets
    cdef long long _index
    cdef long long _records_left
    cdef RecordBatch _batch
    cdef RecordCursor _cursor
    cdef object _records
    cdef object _fetched
    cdef object _search
    cdef object _is_aborted

    cpdef bint add_to(self, RecordColumns columns) except *
    @cython.locals(batch=RecordBatch)
    cdef bint _begin_batch(self, RecordColumns columns) except *
    @cython.locals(batch=RecordBatch, count=cython.longlong)
    cdef bint _add_records(self, RecordColumns columns) except *
    @cython.locals(batch=RecordBatch)
    cdef _end_batch(self, RecordColumns columns)
    cdef tuple _batch_cells(self, RecordBatch batch)
    cdef _aborted(self, RecordBatch batch)


cpdef add_problem(RecordColumns columns, tuple cells, problem, tuple batch_cells=*)
