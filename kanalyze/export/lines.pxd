# The C types of lines.py.
cimport cython

from kanalyze.export.text_buffer cimport TextBuffer


cdef enum:
    OPEN_LIST = 0x5B
    CLOSE_LIST = 0x5D
    COMMA = 0x2C


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
