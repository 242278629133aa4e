"""The instructions of the decoding machine, and the layout of what it writes.

In: nothing. Out: numbers. The compiled machine has the same numbers as C constants in
``machine.pxd``; a test compares the two.

An instruction is an opcode and its operands, each an int32. ``FLAGS`` is a sum of the flags below.

=============  ===========================  ======================================================
opcode         operands                     what is read, and what is put on the tape
=============  ===========================  ======================================================
END                                         nothing: the message is over
SKIP           bytes                        as many bytes; they are skipped
INT8 ... INT64                              a number; one cell (FLOAT64 is read by INT64)
UUID                                        16 bytes; two cells, the higher half first
TEXT           FLAGS                        a length and as many bytes (strings, bytes, raw
                                            records); two cells: length, and index in the arena
RECORDS        FLAGS                        a length and record batches; :data:`RECORDS_CELLS` cells
ARRAY          FLAGS, least element bytes,  a count, then as many elements by what comes up to
               address after                LOOP; one cell, the count
ELEMENTS       FLAGS, element bytes         a count and as many elements; they are skipped
LOOP           address of the first         nothing: the next element follows, or the array ends
NULLABLE       FLAGS, address after         the byte that says whether a struct is null; one cell
TAGS           FLAGS, n, n times tag and    a section of tagged fields; one cell, the number of
               address                      those put on the tape, each after its tag
NEXT_TAG                                    (at address 1 of every table) the next tagged field
TAG_END                                     nothing: a tagged field has to end here
JUMP           address                      nothing: the program continues there
=============  ===========================  ======================================================

A null value has the cell -1 in place of its length, count or marker, and no other cells.
"""

from __future__ import annotations

END, NEXT_TAG, SKIP, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64 = range(10)
UUID, TEXT, RECORDS, ARRAY, ELEMENTS, LOOP, NULLABLE, TAGS, TAG_END, JUMP = range(10, 20)

NULLS = 1
"""Flag: null is allowed."""
COMPACT = 2
"""Flag: the length or count is an unsigned varint, one above what it says; 0 is null."""
WIDE = 4
"""Flag, without COMPACT: the length is an int32, not an int16."""
WANTED = 8
"""Flag: the value is put on the tape."""
KEEP_UNKNOWN = 16
"""Flag of TAGS: tagged fields that have no address are put on the tape as TEXT is."""

NEXT_TAG_ADDRESS = 1

RECORDS_CELLS = 11
"""Cells of a records field: bytes, records, base offset, codecs (a bit each), batches, first and
highest timestamp in ms, a sum of the following; producer id, producer epoch and base sequence of
the first batch, -1 if it has none."""

CONTROL = 1
"""At least one complete batch is a control batch."""
TRUNCATED_RECORDS = 2
"""The last batch is cut off."""
MALFORMED_RECORDS = 4
"""A header contradicts the format."""
MISSING_RECORDS = 8
"""The capture lacks a header."""
HIDDEN_COUNT = 16
"""A compressed message set hides how many records there are."""
HIDDEN_FIRST = 32
"""The first message is a compressed message set: the offset is that of the last record inside."""
