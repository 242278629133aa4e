# The C types of text.py.
cimport cython
from libc.string cimport memcpy

cdef int ZERO, MINUS, MAX_DIGITS, LARGEST_END, QUOTE, COMMA, OPEN, OPEN_LIST, CLOSE_LIST


cdef long long MIN_PLAIN
cdef Py_ssize_t PIECE_BYTES
cdef bytes _NO_ITEMS
cdef bytes _ONE_NULL
cdef bytes _TRUE
cdef bytes _FALSE


cdef inline int copy_bytes(unsigned char[::1] into, Py_ssize_t at, bytes text,
    Py_ssize_t count) except -1:
    if at < 0 or count < 0 or count > len(text) or count > into.shape[0] - at:
        raise IndexError("bytes that are not in the buffer")
    if count > 0:
        memcpy(&into[at], <const char*> text, count)
    return 0


cdef class TextBuffer:
    cdef unsigned char[::1] data
    cdef Py_ssize_t used

    cpdef bytes drain(self)
    cdef int make_room(self, Py_ssize_t count) except -1
    cdef int put_byte(self, unsigned char byte) except -1
    @cython.locals(count=cython.Py_ssize_t)
    cdef int put_bytes(self, bytes text) except -1
    cdef int put_number(self, long long value) except -1
    @cython.locals(at=cython.Py_ssize_t, digits=cython.Py_ssize_t, rest=cython.longlong,
        pair=cython.int)
    cdef int _put_digits(self, long long value) except -1


@cython.locals(known="const int[::1]", made="int[::1]", at=cython.Py_ssize_t, code=cython.int,
    word=bytes)
cpdef texts_of_codes(codes, list words)


cdef class Cells:
    cdef int put(self, TextBuffer text, Py_ssize_t row) except -1


cdef class NumberCells(Cells):
    cdef const long long[::1] _values
    cdef const unsigned char[::1] _valid
    cdef bint _has_nulls, _are_bools
    cdef bytes _null

    cdef int put(self, TextBuffer text, Py_ssize_t row) except -1


cdef class WordCells(Cells):
    cdef const int[::1] _codes
    cdef list _words
    cdef bytes _null

    cdef int put(self, TextBuffer text, Py_ssize_t row) except -1


cdef class ListCells(Cells):
    cdef const long long[::1] _offsets
    cdef LineWriter _writer
    cdef list _items

    @cython.locals(first=cython.Py_ssize_t, end=cython.Py_ssize_t, item=cython.Py_ssize_t)
    cdef int put(self, TextBuffer text, Py_ssize_t row) except -1


cdef class QuotedListCells(ListCells):
    @cython.locals(count=cython.Py_ssize_t, begin=cython.Py_ssize_t, first=cython.int)
    cdef int put(self, TextBuffer text, Py_ssize_t row) except -1


cdef class LineWriter:
    cdef list _before
    cdef bytes _end
    cdef TextBuffer _text

    cpdef int write(self, file, Py_ssize_t rows, list cells) except -1
    cpdef list each(self, Py_ssize_t rows, list cells)
    @cython.locals(cell=Cells)
    cdef int put(self, TextBuffer text, Py_ssize_t row, list cells) except -1
