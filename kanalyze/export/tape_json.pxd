# The C types of tape_json.py.
cimport cython

from kanalyze.export.text cimport TextBuffer
from kanalyze.kafka.codec.machine cimport RECORDS_CELLS
from kanalyze.kafka.codec.values cimport (AS_ARRAY, AS_BOOL, AS_DICT, AS_NULLABLE, AS_NUMBER,
    AS_RECORDS, AS_TEXT, AS_UUID, Shape, TapeCursor, EncodedFields, TapeReader)

cdef int QUOTE, BACKSLASH, COMMA, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST, FIRST_PLAIN, LAST_PLAIN


cdef bytes _NULL
cdef bytes _TRUE
cdef bytes _FALSE


cdef class Form:
    cdef readonly Shape shape
    cdef int kind
    cdef readonly object secrets
    cdef public Form inner
    cdef public list fields
    cdef public dict tags
    cdef readonly str name
    cdef readonly int place
    cdef readonly bytes key, null_key
    cdef public object is_default


cdef class TapeJson(TapeCursor):
    cdef TextBuffer _text
    cdef bint _hides
    cdef EncodedFields _encoded

    cpdef str written(self, EncodedFields encoded, Form form)
    cdef int _value(self, Form form) except -1
    cdef _array(self, Form form)
    @cython.locals(field=Form)
    cdef _struct(self, Form form)
    @cython.locals(is_null=cython.bint)
    cdef int _field(self, Form form) except -1
    cdef int _struct_slowly(self, Form form) except -1
    cdef object _hidden_in(self, Form form)
    cdef bytes _piece(self, Form form, hidden)
    cdef bint _passes_default(self, Form form, hidden) except *
    @cython.locals(size=cython.longlong, begin=cython.longlong)
    cdef dict _unknown(self, tag, Form form)
    cdef object _python(self, Shape shape)
    @cython.locals(at=cython.Py_ssize_t, i=cython.longlong, byte=cython.int)
    cdef _quoted(self, long long begin, long long size)


cdef bytes _any(value)


cdef Form _inner(Form form)
