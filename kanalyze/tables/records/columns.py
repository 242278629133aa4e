"""Writes the rows of records by column: batch by batch, record by record.

In: the batches of records fields, and the cells that all rows of a field share. Out:
:class:`~kanalyze.tables.columns.block.RowBlock`.

A batch that cannot be decoded to its end adds a row with a problem and without a record.

Some headers have known formats: W3C Trace Context, level 1 (``traceparent``); those of Confluent's
``HeaderSchemaIdSerializer`` (``__key_schema_id``, ``__value_schema_id``): the byte 1 and the 16
bytes of a GUID, then any bytes; or the byte 0 and an id of 4 bytes. If a name is repeated, the last
header counts, as in the client libraries.
"""

from __future__ import annotations

import re
import uuid
from array import array
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.decoding.secrets import HIDDEN, holds_credentials
from kanalyze.kafka.records.batches import schema_id, wrapped_sum
from kanalyze.kafka.records.types import RecordProblem, control_type
from kanalyze.tables.columns.block import Lists, RowBlock, drained
from kanalyze.tables.columns.buffers import IntBuffer, WordBuffer, buffers_of, ints_of, words_of
from kanalyze.tables.records.values import AS_TEXT

MAX_ROWS = 2048
MAX_BYTES = 8 << 20  # approximate limit of keys, values and headers in a block
HEADER_BYTES = 100  # memory of a header in a row, besides its value
MIN_ROOM = 64
FIRST_PRINTABLE, LAST_PRINTABLE = 0x20, 0x7E
TAB, LF, CR, DELETE = 0x09, 0x0A, 0x0D, 0x7F
PLAIN, UNDECIDED, NO_TEXT = range(3)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kanalyze.kafka.records.batches import RecordBatch, RecordCursor
    from kanalyze.kafka.records.types import Header, Record
    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import ColumnValues
    from kanalyze.tables.records.fetched import FetchedField, OffsetRanges
    from kanalyze.tables.records.values import RecordSearch, ShownValues

LARGEST_INT64 = (1 << 63) - 1


class OffsetColumns:
    """Columns whose values depend on the offsets of fetched records."""

    def __init__(self, buffers: dict[str, IntBuffer | WordBuffer]) -> None:
        """Write into these buffers; nothing is known of any offset until :meth:`match`."""
        self._is_acquired: IntBuffer = ints_of(buffers, "is_acquired")
        self._delivery_count: IntBuffer = ints_of(buffers, "delivery_count")
        self._produced_time: IntBuffer = ints_of(buffers, "produced_time_ns")
        self._delay: IntBuffer = ints_of(buffers, "delay_ns")
        self._produced_ns = self._deliveries = -1
        self.match(0, [], None)

    def match(
        self, fetched_ns: int, produced: list[OffsetRanges], acquired: OffsetRanges | None
    ) -> None:
        """Set what is known about the offsets of the records that follow.

        Args:
            fetched_ns: time of the response.
            produced: times at which the records of the partition were produced; of several ranges
                with an offset, the first counts.
            acquired: delivery counts of acquired records; None if this is not a ShareFetch.
        """
        self._fetched_ns, self._produced, self._acquired = fetched_ns, produced, acquired
        self._produced_from = self._produced_end = 0
        self._acquired_from = self._acquired_end = 0

    def put(self, at: int, offset: int) -> None:
        """Write the columns for the record with this offset."""
        if self._produced:
            if not self._produced_from <= offset < self._produced_end:
                self._find_produced(offset)
            if 0 <= self._produced_ns <= self._fetched_ns:
                self._produced_time.put(at, self._produced_ns)
                self._delay.put(at, self._fetched_ns - self._produced_ns)
        if self._acquired is not None:
            if not self._acquired_from <= offset < self._acquired_end:
                acquired = self._acquired.around(offset)
                self._acquired_from, self._acquired_end, self._deliveries = acquired
            self._is_acquired.put(at, 1 if self._deliveries >= 0 else 0)
            if self._deliveries >= 0:
                self._delivery_count.put(at, self._deliveries)

    def _find_produced(self, offset: int) -> None:
        """Find when the record with this offset was produced, and the range with the same time."""
        start, end, time_ns = -LARGEST_INT64, LARGEST_INT64, -1
        for ranges in self._produced:
            first, last, time_ns = ranges.around(offset)
            start, end = max(start, first), min(end, last)
            if time_ns >= 0:
                break
        self._produced_from, self._produced_end, self._produced_ns = start, end, time_ns


class RecordColumns:
    """Rows of records that are being written; :meth:`drain` returns them."""

    def __init__(
        self, columns: Sequence[Column], shared: Sequence[str], show: ShownValues | None = None
    ) -> None:
        """Begin without rows.

        Args:
            columns: the columns of the table.
            shared: names of the columns that have the same cell for all records of a batch.
            show: how keys, values and headers are written; None to leave them out.
        """
        self._show: Any = show
        self._longest = LARGEST_INT64 if show is None or show.longest is None else show.longest
        buffers = self._buffers = buffers_of(columns)
        self._names = [column.name for column in columns]
        self._header_names = [name for name in self._buffers if name.startswith("headers.")]
        not_of_rows = (*self._header_names, "header_names")
        self._of_rows = [name for name in self._buffers if name not in not_of_rows]
        self._shared = [self._buffers[name] for name in shared]
        self._index: IntBuffer = ints_of(buffers, "record_index")
        self._offset: IntBuffer = ints_of(buffers, "offset")
        self._timestamp: IntBuffer = ints_of(buffers, "timestamp_ms")
        self._key_bytes: IntBuffer = ints_of(buffers, "key_bytes")
        self._value_bytes: IntBuffer = ints_of(buffers, "value_bytes")
        self._header_count: IntBuffer = ints_of(buffers, "header_count")
        self._sequence: IntBuffer = ints_of(buffers, "sequence")
        self._crc_ok: IntBuffer = ints_of(buffers, "crc_ok")
        self._control_type: WordBuffer = words_of(buffers, "control_type")
        self._key: WordBuffer = words_of(buffers, "key")
        self._key_encoding: WordBuffer = words_of(buffers, "key_encoding")
        self._value: WordBuffer = words_of(buffers, "value")
        self._value_encoding: WordBuffer = words_of(buffers, "value_encoding")
        self._header_key: WordBuffer = words_of(buffers, "headers.key")
        self._header_value: WordBuffer = words_of(buffers, "headers.value")
        self._header_encoding: WordBuffer = words_of(buffers, "headers.encoding")
        self._header_ends: IntBuffer = IntBuffer()
        self._key_schema_id: IntBuffer = ints_of(buffers, "key_schema_id")
        self._value_schema_id: IntBuffer = ints_of(buffers, "value_schema_id")
        self._key_schema_guid: WordBuffer = words_of(buffers, "key_schema_guid")
        self._value_schema_guid: WordBuffer = words_of(buffers, "value_schema_guid")
        self._trace_id: WordBuffer = words_of(buffers, "trace_id")
        self._parent_span_id: WordBuffer = words_of(buffers, "parent_span_id")
        self._name: WordBuffer = words_of(buffers, "header_names")
        self._name_ends: IntBuffer = IntBuffer()
        self._name_codes: dict[bytes, int] = {}
        self._names_written = self._name_room = 0
        self.by_offset = OffsetColumns(buffers)
        """The columns that depend on offsets; :meth:`begin` resets what is known."""
        self._found_in: WordBuffer = words_of(buffers, "found_in")
        self._rows = self._room = self._headers = self._header_room = 0
        self._first = 0
        self._wrong_crcs: list[int] = []
        self._bytes = 0
        self.begin(())

    def __len__(self) -> int:
        """Return the number of rows that :meth:`drain` would return."""
        return self._rows

    @property
    def is_full(self) -> bool:
        """True if the rows reach the limit of a block, in number or in size."""
        return self._is_full()

    def _is_full(self) -> bool:
        return self._rows >= MAX_ROWS or self._bytes >= MAX_BYTES

    def begin(
        self,
        cells: tuple[Any, ...],
        more_cells: tuple[Any, ...] = (),
        batch: RecordBatch | None = None,
        assigned: int | None = None,
        is_assigned: bool = False,
    ) -> None:
        """Begin a group of rows with the same shared cells.

        Args:
            cells: the shared cells, in the order of ``shared``.
            more_cells: those that follow.
            batch: the batch of the records; None for rows without records.
            assigned: offset that the broker assigned to the first record of the message.
            is_assigned: whether offsets count from ``assigned`` instead of the batch's base offset.
        """
        self._end()
        self._cells = cells
        self._more_cells = more_cells
        self._batch = batch
        self._is_assigned = is_assigned
        self._has_offset = not is_assigned or assigned is not None
        self._assigned = 0 if assigned is None else assigned
        self.by_offset.match(0, [], None)

    def add_all(self, cursor: RecordCursor, index: int, most: int) -> int:
        """Write the next records until the block is full; return the number written.

        Args:
            cursor: the records.
            index: index of the next record in its message.
            most: maximum number of records to write.
        """
        count = 0
        while count < most and not self._is_full() and cursor.advance():
            at = self._next_row()
            self._put_numbers(at, index + count, cursor.offset)
            if cursor.timestamp_ms != -1:
                self._timestamp.put(at, cursor.timestamp_ms)
            self._put_sizes(at, cursor.key_bytes, cursor.value_bytes, cursor.header_count)
            self.by_offset.put(at, cursor.offset)
            self._put_schema_ids(at, cursor.key_schema_id(), cursor.value_schema_id())
            headers = cursor.headers()
            if cursor.header_count > 0:
                self._put_header_facts(at, headers)
            if self._show is not None:
                self._put_text(self._key, self._key_encoding, at, cursor.key())
                self._put_text(self._value, self._value_encoding, at, cursor.value())
                for header in headers:
                    self._put_header(header[0], header[1])
            self._put_ends(at)
            count += 1
        return count

    def add(
        self,
        index: int,
        record: Record,
        control_type: str | None,
        found_in: str | None = None,
        *,
        hides_value: bool = False,
    ) -> None:
        """Write a record.

        Args:
            index: index of the record in its message.
            record: the record.
            control_type: type of a control record; None for a user's record.
            found_in: where the bytes of a search were found; None without a search.
            hides_value: whether the value has secrets, which are not shown.
        """
        at = self._next_row()
        key, value = record.key, record.value
        self._put_numbers(at, index, record.offset)
        self._timestamp.put_any(at, record.timestamp_ms)
        self._put_sizes(
            at,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            len(record.headers),
        )
        self.by_offset.put(at, record.offset)
        self._control_type.put(at, control_type)
        if control_type is None:
            self._put_schema_ids(at, schema_id(key), schema_id(value))
        if record.headers:
            self._put_header_facts(at, record.headers)
        self._found_in.put(at, found_in)
        if not record.crc_ok:
            self._wrong_crcs.append(at)
        if self._show is not None:
            self._put_text(self._key, self._key_encoding, at, key)
            if hides_value:
                self._value.put(at, HIDDEN)
                self._value_encoding.put(at, _HIDDEN_ENCODING)
            else:
                self._put_text(self._value, self._value_encoding, at, value)
            for header in record.headers:
                self._put_header(header[0], header[1])
        self._put_ends(at)

    def add_none(self) -> None:
        """Write a row without a record."""
        self._put_ends(self._next_row())

    def drain(self) -> RowBlock:
        """Return the rows written since the last call."""
        self._end()
        rows = self._rows
        columns: dict[str, ColumnValues] = {
            name: drained(self._buffers[name], rows)
            for name in self._names
            if name not in ("headers", "header_names")
        }
        names = {"": drained(self._name, self._names_written)}
        columns["header_names"] = Lists(array("q", [0]) + self._name_ends.drain(rows)[0], names)
        if self._header_names:
            fields = {
                name.partition(".")[2]: drained(self._buffers[name], self._headers)
                for name in self._header_names
            }
            columns["headers"] = Lists(array("q", [0]) + self._header_ends.drain(rows)[0], fields)
        for buffer in self._buffers.values():
            if isinstance(buffer, WordBuffer):
                buffer.forget()
        self._rows = self._room = self._headers = self._header_room = self._first = 0
        self._names_written = self._name_room = 0
        self._name_codes.clear()
        self._bytes = 0
        return RowBlock(rows, columns)

    # -- cells ------------------------------------------------------------------------------------

    def _put_numbers(self, at: int, index: int, offset: int) -> None:
        self._index.put(at, index)
        if not self._is_assigned:
            self._offset.put(at, offset)
        elif self._has_offset:
            self._offset.put(at, wrapped_sum(self._assigned, index))
        if self._batch is not None:
            sequence = self._batch.sequence(offset)
            if sequence >= 0:
                self._sequence.put(at, sequence)

    def _put_schema_ids(self, at: int, of_key: int, of_value: int) -> None:
        if of_key >= 0:
            self._key_schema_id.put(at, of_key)
        if of_value >= 0:
            self._value_schema_id.put(at, of_value)

    def _put_header_facts(self, at: int, headers: tuple[Header, ...]) -> None:
        """Write the names of the headers, and the values of headers with known formats."""
        has_facts = False
        for header in headers:
            key = header[0]
            code = self._name_codes.get(key)
            if code is None:
                name = str(key, "utf-8", "backslashreplace")
                code = self._name_codes[key] = self._name.code(name)
                self._bytes += len(name)
            if key in KNOWN_HEADERS:
                has_facts = True
            if self._names_written == self._name_room:
                self._name_room = max(MIN_ROOM, 2 * self._name_room)
                self._name.make_room(self._name_room)
            self._name.put_code(self._names_written, code)
            self._names_written += 1
        self._bytes += HEADER_BYTES * len(headers)
        if has_facts:
            self._put_known_headers(at, headers)

    def _put_known_headers(self, at: int, headers: tuple[Header, ...]) -> None:
        facts = facts_of(headers)
        self._put_schema_ids(at, facts.key_schema_id, facts.value_schema_id)
        self._key_schema_guid.put(at, facts.key_schema_guid)
        self._value_schema_guid.put(at, facts.value_schema_guid)
        self._trace_id.put(at, facts.trace_id)
        self._parent_span_id.put(at, facts.parent_span_id)

    def _put_ends(self, at: int) -> None:
        """Write where the lists of a row end."""
        self._header_ends.put(at, self._headers)
        self._name_ends.put(at, self._names_written)

    def _put_sizes(self, at: int, key_bytes: int, value_bytes: int, headers: int) -> None:
        if key_bytes >= 0:
            self._key_bytes.put(at, key_bytes)
            self._bytes += key_bytes
        if value_bytes >= 0:
            self._value_bytes.put(at, value_bytes)
            self._bytes += value_bytes
        self._header_count.put(at, headers)

    def _put_text(self, text: WordBuffer, encoding: WordBuffer, at: int, data: bytes | None) -> int:
        """Write bytes as text, and how they are written; return the length of the text."""
        if data is None:
            return 0
        size = len(data)
        kind = _kind_of(data) if size <= self._longest else UNDECIDED
        if kind == PLAIN:
            word, form = str(data, "ascii"), AS_TEXT
        elif kind == NO_TEXT:
            word, form = self._show.no_text(data)
        else:
            word, form = self._show.text(data)
        text.put(at, word)
        encoding.put(at, form)
        return len(word)

    def _put_header(self, key: bytes, value: bytes | None) -> None:
        at = self._headers
        if at == self._header_room:
            self._header_room = max(MIN_ROOM, 2 * at)
            for name in self._header_names:
                self._buffers[name].make_room(self._header_room)
        self._header_key.put(at, str(key, "utf-8", "backslashreplace"))
        size = self._put_text(self._header_value, self._header_encoding, at, value)
        self._headers = at + 1
        self._bytes += HEADER_BYTES + size

    def _next_row(self) -> int:
        at = self._rows
        if at == self._room:
            self._room = max(MIN_ROOM, 2 * at)
            self._header_ends.make_room(self._room)
            self._name_ends.make_room(self._room)
            for name in self._of_rows:
                self._buffers[name].make_room(self._room)
        self._rows = at + 1
        return at

    def _end(self) -> None:
        """Write the shared cells of the last rows."""
        first, self._first = self._first, self._rows
        if first == self._rows:
            return
        _fill(self._shared, 0, self._cells, first, self._rows)
        _fill(self._shared, len(self._cells), self._more_cells, first, self._rows)
        for at in self._wrong_crcs:
            self._crc_ok.put(at, 0)
        self._wrong_crcs.clear()


def _fill(
    buffers: list[IntBuffer | WordBuffer], column: int, cells: tuple[Any, ...], first: int, end: int
) -> None:
    """Write a cell to some rows of each of the buffers from ``column`` on."""
    for cell in cells:
        buffer = buffers[column]
        column += 1
        if cell is None:
            continue
        if isinstance(buffer, WordBuffer):
            _fill_words(buffer, first, end, cell)
        else:
            _fill_ints(buffer, first, end, cell)


def _fill_words(buffer: WordBuffer, first: int, end: int, word: str) -> None:
    code = buffer.code(word)
    for at in range(first, end):
        buffer.put_code(at, code)


def _fill_ints(buffer: IntBuffer, first: int, end: int, value: int) -> None:
    for at in range(first, end):
        buffer.put(at, value)


def _kind_of(data: bytes) -> int:
    """Return whether bytes are printable ASCII, tabs and line ends, as most keys and values are.

    ``NO_TEXT`` if a control character is among them: no other character of UTF-8 has such a byte.
    """
    kind = PLAIN
    view = data
    for at in range(len(view)):
        byte = view[at]
        if byte > LAST_PRINTABLE:
            if byte == DELETE:
                return NO_TEXT
            kind = UNDECIDED
        elif byte < FIRST_PRINTABLE and byte not in (TAB, LF, CR):
            return NO_TEXT
    return kind


_TRACE_PARENT = b"traceparent"
_KEY_SCHEMA, _VALUE_SCHEMA = b"__key_schema_id", b"__value_schema_id"
KNOWN_HEADERS = frozenset({_TRACE_PARENT, _KEY_SCHEMA, _VALUE_SCHEMA})
"""Names of the headers whose formats are known."""
_traceparent = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?"
)
_FIRST_VERSION = b"00"
_GUID_MAGIC = 1
_GUID_END = 17


class HeaderFacts(NamedTuple):
    """The values in the headers of a record.

    Attributes:
        trace_id: of ``traceparent``, in hexadecimal digits.
        parent_span_id: of ``traceparent``, in hexadecimal digits.
        key_schema_id, value_schema_id: ids of 4 bytes; -1 for none.
        key_schema_guid, value_schema_guid: GUIDs.
    """

    trace_id: str | None
    parent_span_id: str | None
    key_schema_id: int
    value_schema_id: int
    key_schema_guid: str | None
    value_schema_guid: str | None


def facts_of(headers: Sequence[Header]) -> HeaderFacts:
    """Return the values in headers with known formats."""
    values = {key: value for key, value in headers if value is not None and key in KNOWN_HEADERS}
    trace_id, parent_span_id = _trace(values.get(_TRACE_PARENT))
    of_key, of_value = values.get(_KEY_SCHEMA), values.get(_VALUE_SCHEMA)
    return HeaderFacts(
        trace_id,
        parent_span_id,
        schema_id(of_key),
        schema_id(of_value),
        _guid(of_key),
        _guid(of_value),
    )


def _trace(value: bytes | None) -> tuple[str | None, str | None]:
    match = None if value is None else _traceparent.fullmatch(value)
    # A later version may have more fields; the first one has four.
    if match is None or (match[1] == _FIRST_VERSION and match[4] is not None):
        return None, None
    return match[2].decode("ascii"), match[3].decode("ascii")


def _guid(value: bytes | None) -> str | None:
    if value is None or len(value) < _GUID_END or value[0] != _GUID_MAGIC:
        return None
    return str(uuid.UUID(bytes=value[1:_GUID_END]))


OF_BATCH = (
    *("timestamp_type", "codec", "magic", "batch_base_offset", "batch_bytes"),
    *("batch_record_count", "partition_leader_epoch", "producer_id", "producer_epoch"),
    *("is_transactional", "is_control", "delete_horizon_ms", "crc_ok", "is_aborted", "problem"),
)
"""Columns whose values come from the batch."""
_NO_BATCH_CELLS = (None,) * (len(OF_BATCH) - 1)
_HIDDEN_ENCODING = "hidden"


class RecordFieldRows:
    """Writes the rows of one records field."""

    def __init__(
        self,
        batches: Iterable[RecordBatch],
        problems: list[RecordProblem],
        cells: tuple[Any, ...],
        assigned: int | None,
        fetched: FetchedField | None,
        has_base_offsets: bool,
        search: RecordSearch | None,
        *,
        may_have_secrets: bool,
    ) -> None:
        """Begin before the first batch.

        Args:
            batches: the batches of the field.
            problems: problems outside batches; filled while ``batches`` is iterated.
            cells: the cells that all rows share, in the order of the columns' ``shared``.
            assigned: offset that the broker assigned to the first record.
            fetched: what is known of fetched records; None if the field is in a request.
            has_base_offsets: whether batches have a base offset.
            search: records without what it finds are left out; None for no search.
            may_have_secrets: whether values may be credentials, which are not shown or searched.
        """
        self._batches = iter(batches)
        self._problems = problems
        self._cells = cells
        self._assigned = assigned
        self._fetched: Any = fetched
        self._is_produce = fetched is None
        self._has_base_offsets = has_base_offsets
        self._search: Any = search
        self._may_have_secrets = may_have_secrets
        self._is_aborted: bool | None = None
        self._index = 0
        self._records_left = 0
        self._batch: RecordBatch | None = None
        self._cursor: Any = None
        self._records: Any = None

    def add_to(self, columns: RecordColumns) -> bool:
        """Add rows until the columns are full; return true if all rows were added."""
        while self._batch is not None or self._begin_batch(columns):
            if not self._add_records(columns):
                return False
            self._end_batch(columns)
            if columns.is_full:
                return False
        for problem in self._problems:
            # A broker fills a response up to its limit and cuts the last batch; that is legal.
            if self._is_produce or problem is not RecordProblem.CUT_BATCH:
                add_problem(columns, self._cells, problem.value)
        return True

    def _begin_batch(self, columns: RecordColumns) -> bool:
        """Go to the next batch; return false if there is none."""
        batch: RecordBatch | None = next(self._batches, None)
        self._batch = batch
        if batch is None:
            return False
        self._is_aborted = self._aborted(batch)
        columns.begin(
            self._cells,
            self._batch_cells(batch, batch.timestamp_type, None),
            batch,
            self._assigned,
            self._is_produce,
        )
        if self._fetched is not None:
            fetched = self._fetched
            columns.by_offset.match(fetched.fetched_ns, fetched.produced, fetched.acquired)
        self._cursor = None
        if self._search is None and not self._may_have_secrets and not batch.is_control:
            self._cursor = batch.cursor()
            self._records_left = batch.most_records
        if self._cursor is None:
            self._records = iter(batch.records())
        return True

    def _add_records(self, columns: RecordColumns) -> bool:
        """Add records of the batch until the columns are full; return whether all were added."""
        batch = self._batch
        assert batch is not None
        if self._cursor is not None:
            count = columns.add_all(self._cursor, self._index, self._records_left)
            self._index += count
            self._records_left -= count
            if columns.is_full:
                return False
            batch.end(self._cursor)
            return True
        for record in self._records:
            is_secret = self._may_have_secrets and _is_secret(record, batch)
            found_in = None
            if self._search is not None:
                found_in = self._search.places(record, with_value=not is_secret)
            if self._search is None or found_in is not None:
                kind = control_type(record.key) if batch.is_control else None
                columns.add(self._index, record, kind, found_in, hides_value=is_secret)
            self._index += 1
            if columns.is_full:
                return False
        return True

    def _end_batch(self, columns: RecordColumns) -> None:
        batch = self._batch
        assert batch is not None
        self._batch = None
        for problem in batch.problems:
            columns.begin(self._cells, self._batch_cells(batch, None, problem.value))
            columns.add_none()

    def _batch_cells(
        self, batch: RecordBatch, timestamp_type: str | None, problem: str | None
    ) -> tuple[Any, ...]:
        """Return the cells of :data:`OF_BATCH`."""
        return (
            timestamp_type,
            batch.codec,
            batch.magic,
            batch.base_offset if self._has_base_offsets else None,
            batch.batch_bytes,
            batch.record_count,
            batch.partition_leader_epoch,
            batch.producer_id,
            batch.producer_epoch,
            batch.is_transactional,
            batch.is_control,
            batch.delete_horizon_ms,
            batch.crc_ok,
            self._is_aborted,
            problem,
        )

    def _aborted(self, batch: RecordBatch) -> bool | None:
        """Return true if the records of a batch belong to an aborted transaction.

        None if unknown, and for control batches.
        """
        if not batch.is_control and not batch.is_transactional:
            return False
        return None if self._fetched is None else self._fetched.is_aborted(batch)


def _is_secret(record: Record, batch: RecordBatch) -> bool:
    """Return true if a record of the controllers' metadata log has credentials."""
    if batch.is_control or record.value is None:
        return False
    return holds_credentials(record.value)


def add_problem(columns: RecordColumns, cells: tuple[Any, ...], problem: str) -> None:
    """Add a row with a problem and without a batch."""
    columns.begin(cells, (*_NO_BATCH_CELLS, problem))
    columns.add_none()
