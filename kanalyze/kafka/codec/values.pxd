# The C types of values.py.
cimport cython

from kanalyze.kafka.codec.machine cimport (are_equal, CONTROL, DONE, HIDDEN_COUNT, HIDDEN_FIRST,
    Machine, MALFORMED_RECORDS, MISSING_RECORDS, RECORDS_CELLS, RUNNING, start_of, Tape, TRUNCATED,
    TRUNCATED_RECORDS)
from kanalyze.kafka.framing.frame cimport Frame
from kanalyze.model.streams cimport Segments


cdef enum:
    AS_NUMBER, AS_BOOL, AS_FLOAT, AS_UUID, AS_TEXT, AS_BYTES, AS_RECORDS, AS_ARRAY, AS_TUPLE
    AS_DICT, AS_NULLABLE

cdef long long ALL_CODECS, MAX_EMPTY_ELEMENTS, _MAX_KNOWN, _LONGEST_KNOWN_BYTES


cdef class Shape:
    cdef readonly int kind
    cdef readonly Shape inner
    cdef readonly list keys, shapes, defaults
    cdef bint has_lists, is_full
    cdef readonly dict tags
    cdef readonly object unknown
    cdef readonly long long cells


cdef class EncodedFields:
    cdef TapeReader reader
    cdef readonly Shape shape
    cdef public Tape tape
    cdef long long at
    cdef readonly long long cells
    cdef long long arena_at
    cdef readonly long long arena_bytes

    cdef _begin(self, TapeReader reader, Shape shape, Tape tape)
    cpdef take(self, const long long[::1] cells, long long at, long long count,
        const unsigned char[::1] arena, long long begin, long long size)
    cpdef values(self)
    @cython.locals(begin=cython.longlong, size=cython.longlong)
    cpdef tuple state(self)


cdef class _Text:
    cdef const unsigned char[::1] data
    cdef str text

    cdef bint is_at(self, const unsigned char* data, long long begin, long long end) except -1


cdef class Texts:
    cdef list _known

    @cython.locals(slot=cython.longlong, entry=_Text)
    cdef str text(self, const unsigned char* data, long long begin, long long end)


cdef class _UuidEntry:
    cdef readonly long long high, low
    cdef bytes data


cdef class TapeCursor:
    cdef readonly long long at
    cdef Tape current_tape
    cdef long long[::1] tape
    cdef unsigned char[::1] arena
    cdef long long arena_at
    cdef Texts texts
    cdef list uuids

    cdef _share(self, TapeCursor other)
    cdef begin(self, EncodedFields encoded)
    cdef _go_to(self, Tape tape, long long at, long long arena_at)
    cdef long long number(self) except? -7
    @cython.locals(size=cython.longlong, begin=cython.longlong)
    cdef str text(self)
    @cython.locals(entry=_UuidEntry)
    cdef bytes uuid(self)


cdef class TapeReader(TapeCursor):
    cdef Machine machine

    cpdef value(self, Shape shape)
    cdef decoded(self, EncodedFields encoded)
    @cython.locals(size=cython.longlong, begin=cython.longlong, _i=cython.longlong)
    cdef object _value(self, Shape shape)
    cdef tuple _short(self, list shapes)
    @cython.locals(inner=Shape)
    cdef tuple _tuple(self, Shape shape)
    @cython.locals(size=cython.longlong, begin=cython.longlong)
    cdef dict _dict(self, Shape shape)
    @cython.locals(at=cython.longlong, flags=cython.longlong, hidden=cython.longlong,
        batches=cython.longlong, is_last=cython.bint)
    cdef object _records(self)


cdef Shape _inner(Shape shape)
cdef object _not_negative(long long value)
cdef object _float(object bits)


@cython.locals(encoded=EncodedFields)
cdef EncodedFields new_fields(TapeReader reader, Shape shape, Tape tape)


cdef class CellChecker:
    cdef const long long[::1] cells
    cdef readonly Py_ssize_t at
    cdef Py_ssize_t end
    cdef long long arena_bytes
    cdef public long long records_cells
    cdef readonly list records_ends

    cpdef pass_value(self, Shape shape)
    cdef long long _cell(self) except? -7
    @cython.locals(begin=cython.longlong)
    cdef _pass_bytes(self, long long size)
    cdef _pass_array(self, Shape inner)
    @cython.locals(inner=Shape)
    cdef _pass_struct(self, Shape shape, bint is_dict)
    @cython.locals(begin=cython.Py_ssize_t, codecs=cython.longlong, _i=cython.longlong)
    cdef _pass_records(self)


cpdef Tape shared_tape(long long cells=*, long long arena_bytes=*)


cdef class BodyDecoder:
    cdef readonly int address, stack_cells
    cdef readonly Shape shape
    cdef readonly Machine machine
    cdef readonly long long end
    cdef TapeReader reader

    @cython.locals(limit=cython.longlong)
    cpdef long long read(self, view, long long pos, Tape tape=*) except -1
    cpdef of_frame(self, Frame frame, long long at)
    @cython.locals(encoded=EncodedFields, own=Tape)
    cpdef EncodedFields take(self, Tape tape)
    @cython.locals(frame_bytes=cython.longlong, part="const unsigned char[::1]")
    cdef run(self, Frame frame, long long at, Tape tape=*)
    cdef _failure(self)
