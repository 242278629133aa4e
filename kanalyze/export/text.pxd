# The C types of text.py.
cimport cython

from kanalyze.kafka.codec.machine cimport RECORDS_CELLS
from kanalyze.kafka.codec.values cimport (
    AS_ARRAY,
    AS_BOOL,
    AS_DICT,
    AS_NULLABLE,
    AS_NUMBER,
    AS_RECORDS,
    AS_TEXT,
    AS_UUID,
    Shape,
    TapeCursor,
    EncodedFields,
    TapeReader,
)

cdef enum:
    ZERO = 0x30
    MINUS = 0x2D
    MAX_DIGITS = 20
    FEW_BYTES = 128
    QUOTE = 0x22
    BACKSLASH = 0x5C
    COMMA = 0x2C
    OPEN = 0x7B
    CLOSE = 0x7D
    OPEN_LIST = 0x5B
    CLOSE_LIST = 0x5D
    FIRST_PLAIN = 0x20
    LAST_PLAIN = 0x7E

cdef long long MIN_PLAIN


cdef class TextBuffer:
    cdef unsigned char[::1] data
    cdef Py_ssize_t used

    @cython.locals(used=cython.Py_ssize_t)
    cpdef bytes drain(self)
    cdef int make_room(self, Py_ssize_t count) except -1
    cdef int put_byte(self, unsigned char byte) except -1
    @cython.locals(count=cython.Py_ssize_t, at=cython.Py_ssize_t, i=cython.Py_ssize_t)
    cdef int put(self, const unsigned char[::1] text) except -1
    @cython.locals(
        count=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
        i=cython.Py_ssize_t,
        view="const unsigned char[::1]",
    )
    cdef int put_bytes(self, bytes text) except -1
    @cython.locals(at=cython.Py_ssize_t, quotient=cython.longlong)
    cdef put_number(self, long long value)
    cdef _put_text(self, value)


cdef class Cells:
    cdef put(self, TextBuffer text, Py_ssize_t row)


cdef class NumberCells(Cells):
    cdef const long long[::1] _values
    cdef const unsigned char[::1] _valid
    cdef bint _has_nulls
    cdef bytes _null

    cdef put(self, TextBuffer text, Py_ssize_t row)
    cdef _put_known(self, TextBuffer text, Py_ssize_t row)


cdef class TruthCells(NumberCells):
    cdef _put_known(self, TextBuffer text, Py_ssize_t row)


cdef class WordCells(Cells):
    cdef const int[::1] _codes
    cdef list _words
    cdef bytes _null

    @cython.locals(code=cython.int, word=bytes)
    cdef put(self, TextBuffer text, Py_ssize_t row)


cdef class TextCells(Cells):
    cdef list _texts

    @cython.locals(word=bytes)
    cdef put(self, TextBuffer text, Py_ssize_t row)


cdef class ListCells(Cells):
    cdef const long long[::1] _offsets
    cdef LineWriter _writer
    cdef list _items

    @cython.locals(first=cython.Py_ssize_t, end=cython.Py_ssize_t, item=cython.Py_ssize_t)
    cdef put(self, TextBuffer text, Py_ssize_t row)


cdef class LineWriter:
    cdef list _before
    cdef bytes _end
    cdef TextBuffer _text

    @cython.locals(text=TextBuffer, row=cython.Py_ssize_t)
    cpdef bytes lines(self, Py_ssize_t rows, list cells)
    @cython.locals(text=TextBuffer, row=cython.Py_ssize_t, lines=list)
    cpdef list each(self, Py_ssize_t rows, list cells)
    @cython.locals(index=cython.Py_ssize_t, before=bytes, cell=Cells)
    cdef put(self, TextBuffer text, Py_ssize_t row, list cells)


cdef long long _MAX_KNOWN


cdef class Form:
    cdef readonly Shape shape
    cdef int kind
    cdef readonly object secrets
    cdef public Form inner
    cdef public list fields
    cdef public dict tags
    cdef readonly str name
    cdef readonly int place
    cdef const unsigned char[::1] key
    cdef const unsigned char[::1] null_key
    cdef public object is_default


cdef class _UuidText:
    cdef readonly long long high
    cdef readonly long long low
    cdef const unsigned char[::1] text


cdef class TapeJson(TapeCursor):
    cdef const unsigned char[::1] _null
    cdef const unsigned char[::1] _true
    cdef const unsigned char[::1] _false
    cdef list _uuids
    cdef TextBuffer _text
    cdef bint _hides
    cdef EncodedFields _encoded

    cpdef str written(self, EncodedFields encoded, Form form)
    @cython.locals(kind=cython.int, size=cython.longlong)
    cdef int _value(self, Form form) except -1
    @cython.locals(size=cython.longlong, inner=Form, i=cython.longlong)
    cdef _array(self, Form form)
    @cython.locals(
        begin=cython.longlong,
        used=cython.Py_ssize_t,
        fields=list,
        field=Form,
        i=cython.Py_ssize_t,
    )
    cdef _struct(self, Form form)
    @cython.locals(is_null=cython.bint)
    cdef int _field(self, Form form) except -1
    cdef int _struct_slowly(self, Form form) except -1
    @cython.locals(begin=cython.longlong)
    cdef object _hidden_in(self, Form form)
    @cython.locals(text=TextBuffer, begin=cython.Py_ssize_t)
    cdef bytes _piece(self, Form form, hidden)
    @cython.locals(begin=cython.longlong, inner=Form)
    cdef bint _passes_default(self, Form form, hidden) except *
    @cython.locals(size=cython.longlong, begin=cython.longlong)
    cdef dict _unknown(self, tag, Form form)
    @cython.locals(encoded=EncodedFields, reader=TapeReader, part=EncodedFields)
    cdef object _python(self, Shape shape)
    @cython.locals(
        high=cython.longlong, low=cython.longlong, slot=cython.longlong, entry=_UuidText
    )
    cdef int _uuid(self) except -1

    cdef int _put_any(self, value) except -1
    @cython.locals(text=TextBuffer, at=cython.Py_ssize_t, i=cython.longlong, byte=cython.int)
    cdef _quoted(self, long long begin, long long size)


cdef Form _inner(Form form)
