"""Checks that an anonymized capture says what the original said, but for names.

In: captures, and the capture that was made of them. Out: what differs, in lines for people.

Both are analyzed at once, in processes of their own if they are large, and each row is compared by
a hash of what has to be the same: times, sizes, numbers, APIs, statuses, errors, kinds of
anomalies; of names, only whether there is one. The order of rows does not matter. Memory is taken
by rows that were found in one of the two only.

What anonymizing blanks on purpose is left out: requests of Kafka 0.7, what is known of connections
that are not plaintext Kafka besides their packets and times, anomalies of the files; and, where
records are cut off, what a snap length changes.

TLS stays encrypted, here as where the capture was made: anonymized bytes of decrypted messages
would have no place in the packets.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.capture.merge import MergedCaptures
from kanalyze.common.forked import Forked, usable_processes
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net.segment_columns import Shard
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.tables import ALWAYS, TABLES
from kanalyze.tables.columns.block import Ints, Lists, Words, words_in_use

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from kanalyze.capture.merge import MergeInput
    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.columns.block import ColumnValues, RowBlock

_KAFKA: Final = "kafka"
_OUR_WORDS: Final = frozenset(
    (
        *("wire", "api_name", "status", "error_name", "capture_point", "protocol", "opened_by"),
        *("closed_by", "end", "kind", "stage", "anomalies", "errors.name", "partitions.codec"),
    )
)
"""Columns, and fields of lists, whose texts are words of ours and have to be the same."""
_OF_FILES: Final = frozenset(("capture",))
_PACKET_NUMBERS: Final = frozenset(("request_packet", "response_packet", "first_packet", "packet"))
"""They differ if several captures become one."""
_OF_SNAPPED: Final = frozenset(
    (
        *("anomalies", "pipeline_wait_ns", "broker_time_ns", "waited", "waited_ns"),
        *("client_snapped_bytes", "broker_snapped_bytes"),
    )
)
"""Columns that differ if records are cut off."""
_SNAPPED_KINDS: Final = frozenset((AnomalyKind.SNAPPED_BYTES, AnomalyKind.MISSING_BYTES))
_BLANKED_KINDS: Final = frozenset((AnomalyKind.TLS_ON_PLAINTEXT_PORT, AnomalyKind.KEYS_MISSING))
"""Anomalies of TLS, which is blank."""
_MAX_UNMATCHED: Final = 1 << 18
"""Rows without a partner, after which reading ends: most of the rest would have none either."""
_MAX_NAMED: Final = 3

_of_other: Final = attrgetter("connection_number", "start_ns", "end_ns")
"""Of a connection that is not plaintext Kafka; which end is the client may be unknown then."""
_ORIGINAL, _WRITTEN = 1, -1
"""The two that are compared, as what a row of them counts."""


class HashedRows(NamedTuple):
    """Rows of a table: for each one a hash of what has to be the same."""

    table: str
    hashes: NDArray[np.uint64]
    connections: NDArray[np.int32]
    """For each row, the index of the name of its connection."""
    names: list[str]
    """Names of connections; empty for none."""
    read_bytes: int
    """Bytes of the capture that were read so far."""


class OutputCheck:
    """Compares a capture with those that it was made of: :meth:`differences`, once."""

    def __init__(
        self,
        originals: Sequence[MergeInput],
        written: str,
        *,
        strips_records: bool = False,
        jobs: int = 1,
        **settings: Any,
    ) -> None:
        """Open nothing yet.

        Args:
            originals: the captures, in the order of their first packets; several became one.
            written: path of the capture that was made of them.
            strips_records: whether records were cut off.
            jobs: how many processes may read large captures.
            **settings: how captures are read, arguments of
                :class:`~kanalyze.runtime.pipeline.Analysis`.
        """
        sides = (_ORIGINAL, originals), (_WRITTEN, [written])
        self._total_bytes = [MergedCaptures(inputs).progress[1] for _, inputs in sides]
        left_out = _OF_FILES | (_OF_SNAPPED if strips_records else frozenset())
        if len(originals) > 1:
            left_out |= _PACKET_NUMBERS
        left_out_kinds = _BLANKED_KINDS | (_SNAPPED_KINDS if strips_records else frozenset())
        size = None if None in self._total_bytes else sum(filter(None, self._total_bytes))
        jobs = usable_processes(jobs, size)
        shards = max(jobs // len(sides), 1)
        self._is_forked = jobs > 1
        self._readers = {
            sign: [
                _SideReader(inputs, Shard(index, shards), left_out, left_out_kinds, settings)
                for index in range(shards)
            ]
            for sign, inputs in sides
        }
        self._read_bytes = {_ORIGINAL: 0, _WRITTEN: 0}
        self._rows = {_ORIGINAL: 0, _WRITTEN: 0}
        self._unmatched = {table: _Unmatched() for table in ALWAYS}
        self._connections: dict[str, int] = {}
        """The number of each name of a connection."""

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far of both, and bytes in all."""
        sizes = [size for size in self._total_bytes if size is not None]
        total = sum(sizes) if len(sizes) == len(self._total_bytes) else None
        return sum(self._read_bytes.values()), total

    def differences(self) -> tuple[str, ...]:
        """Read both; return a line for each table in which more than names differs.

        Raises:
            CaptureError: one of them cannot be read.
            OSError: the system cannot start the processes.
        """
        with ExitStack() as stack:
            reading = {
                sign: [self._rows_of(reader, stack) for reader in readers]
                for sign, readers in self._readers.items()
            }
            while any(reading.values()):
                if sum(map(len, self._unmatched.values())) > _MAX_UNMATCHED:
                    return self._lines("at least ")
                self._read_on(reading)
        return self._lines("")

    def _rows_of(self, reader: _SideReader, stack: ExitStack) -> Iterator[HashedRows]:
        if not self._is_forked:
            return reader.rows()
        forked = Forked(reader.rows)
        stack.callback(forked.close)
        return forked

    def _read_on(self, reading: dict[int, list[Iterator[HashedRows]]]) -> None:
        """Read the next rows of the capture of which fewer were read, so that few wait."""
        is_ahead = self._rows[_ORIGINAL] > self._rows[_WRITTEN]
        sign = _WRITTEN if is_ahead else _ORIGINAL
        if not reading[sign]:
            sign = -sign
        reader = reading[sign].pop(0)  # one after the other
        rows = next(reader, None)
        if rows is None:
            return
        reading[sign].append(reader)
        self._read_bytes[sign] = max(self._read_bytes[sign], rows.read_bytes)
        self._rows[sign] += len(rows.hashes)
        numbers = [
            self._connections.setdefault(name, len(self._connections)) for name in rows.names
        ]
        connections = np.array(numbers, np.int64)[rows.connections]
        self._unmatched[rows.table].add(sign, rows.hashes, connections)

    # -- lines ------------------------------------------------------------------------------------

    def _lines(self, about: str) -> tuple[str, ...]:
        names = list(self._connections)
        lines = []
        for table, unmatched in self._unmatched.items():
            parts = [
                f"{about}{sum(counts.values()):,} only in the {place} ({_named(counts, names)})"
                for sign, place in ((_ORIGINAL, "original"), (_WRITTEN, "anonymous capture"))
                if (counts := unmatched.by_connection(sign))
            ]
            if parts:
                lines.append(f"{table}: {', '.join(parts)}")
        return tuple(lines)


def _named(counts: Counter[int], names: Sequence[str]) -> str:
    """Return the connections with most rows, by name."""
    named = [names[number] or "no connection" for number, _ in counts.most_common(_MAX_NAMED)]
    more = len(counts) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")


class _Unmatched:
    """Rows of a table of which one of the two captures has more than the other."""

    def __init__(self) -> None:
        self._more: dict[int, tuple[int, int]] = {}
        """By hash: how many more of equal rows the originals have, fewer if negative; and the
        connection of one that there are more of."""

    def __len__(self) -> int:
        """Return how many different rows are without a partner."""
        return len(self._more)

    def add(self, sign: int, hashes: NDArray[np.uint64], connections: NDArray[np.int64]) -> None:
        """Add rows of one of the two."""
        more = self._more
        for hash_, connection in zip(hashes.tolist(), connections.tolist(), strict=True):
            count, known = more.pop(hash_, (0, connection))
            count += sign
            if count:
                more[hash_] = count, connection if count * sign > 0 else known

    def by_connection(self, sign: int) -> Counter[int]:
        """Return how many rows one of the two has more, by connection."""
        counts: Counter[int] = Counter()
        for count, connection in self._more.values():
            counts[connection] += max(count * sign, 0)
        return +counts


class _SideReader:
    """Reads one of the two that are compared, or a shard of its connections: :meth:`rows`, once."""

    def __init__(
        self,
        inputs: Sequence[MergeInput],
        shard: Shard,
        left_out: frozenset[str],
        left_out_kinds: frozenset[AnomalyKind],
        settings: dict[str, Any],
    ) -> None:
        self._inputs = inputs
        self._shard = shard
        self._columns = {
            table: [column for column in TABLES[table].columns if column.name not in left_out]
            for table in ALWAYS
        }
        self._left_out_kinds = left_out_kinds
        self._settings = settings
        self._held: dict[object, list[tuple[int, str]]] = {}
        """Anomalies of open connections: their hashes, and the connection's name."""
        self._read_bytes = 0

    def rows(self) -> Iterator[HashedRows]:
        """Yield the rows of all tables."""
        with MergedCaptures(self._inputs) as captures:
            captures.description.takes_secrets = False
            analysis = Analysis((), source=captures, shard=self._shard, **self._settings)
            for rows in analysis.table_rows():
                self._read_bytes = captures.progress[0]
                for block in rows.requests:
                    yield self._requests(block)
                # An anomaly comes before its connection has closed.
                yield self._pairs("anomalies", self._anomalies(rows.anomalies))
                yield from self._closed(rows.connections)
            for pairs in self._held.values():
                yield self._pairs("anomalies", pairs)

    def _requests(self, block: RowBlock) -> HashedRows:
        hashes = _hashes(block, self._columns["requests"])
        wires = np.array(_texts(block.columns["wire"]), np.object_) == _KAFKA
        connections = block.columns["connection"]
        assert isinstance(connections, Words)
        codes, words = words_in_use(connections)
        names = [*words, ""]  # code -1, null, is the last one
        numbers = np.frombuffer(codes, np.int32)[wires] % np.int32(len(names))
        return HashedRows("requests", hashes[wires], numbers, names, self._read_bytes)

    def _anomalies(self, rows: Sequence[AnomalyRow]) -> Iterator[tuple[int, str]]:
        """Yield hashes and connections; keep those of connections that are not known yet."""
        for row in rows:
            if row.stage == "capture" or row.kind in self._left_out_kinds:
                continue
            pair = _hash_of_row(row, self._columns["anomalies"]), row.connection or ""
            if row.stage == "net" or row.connection is None:
                yield pair
            else:
                self._held.setdefault(_ends(row), []).append(pair)

    def _closed(self, rows: Sequence[ConnectionRow]) -> Iterator[HashedRows]:
        pairs = []
        for row in rows:
            held = self._held.pop(_ends(row), [])
            if row.protocol == _KAFKA:
                yield self._pairs("anomalies", held)
                hash_ = _hash_of_row(row, self._columns["connections"])
            else:
                ports = tuple(sorted((row.client_port, row.broker_port)))
                packets = row.client_packets + row.broker_packets
                payload_bytes = row.client_payload_bytes + row.broker_payload_bytes
                hash_ = hash((ports, packets, payload_bytes, *_of_other(row)))
            pairs.append((hash_, row.connection))
        yield self._pairs("connections", pairs)

    def _pairs(self, table: str, pairs: Iterable[tuple[int, str]]) -> HashedRows:
        every = list(pairs)
        hashes = np.array([hash_ & _LOW_64_BITS for hash_, _ in every], np.uint64)
        numbers = np.arange(len(every), dtype=np.int32)
        return HashedRows(table, hashes, numbers, [name for _, name in every], self._read_bytes)


def _ends(row: AnomalyRow | ConnectionRow) -> object:
    """Return what connection a row is of, whichever end counts as the client."""
    ends = {(row.client_ip, row.client_port), (row.broker_ip, row.broker_port)}
    return frozenset(ends), row.connection_number


# -- hashes ---------------------------------------------------------------------------------------
# Processes are forked, so Python's hash of a text is the same in all of them.

_LOW_64_BITS: Final = (1 << 64) - 1
_ODD, _OTHER_ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Odd multipliers with irregular bits; which ones does not matter."""
_NULL: Final = np.uint64(0xD6E8FEB86659FD93)
_HALF_BITS: Final = np.uint64(32)


def _hash_of_row(row: AnomalyRow | ConnectionRow, columns: Sequence[Column]) -> int:
    return hash(tuple([_kept(getattr(row, column.name), column.name) for column in columns]))


def _kept(value: Any, name: str) -> Any:
    """Return what has to be the same of a value: a text of ours, a number; not a name."""
    if isinstance(value, list | tuple):
        return tuple([_kept(item, name) for item in value])
    return value is None if isinstance(value, str | None) and name not in _OUR_WORDS else value


def _hashes(block: RowBlock, columns: Sequence[Column]) -> NDArray[np.uint64]:
    """Return for each row a hash of what has to be the same in both captures."""
    values = [_values(block.columns[column.name], column.name) for column in columns]
    return _joined(len(block), values)


def _joined(count: int, values: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return ``count`` hashes of several values each."""
    hashes = np.zeros(count, np.uint64)
    for each in values:
        hashes = (hashes ^ each) * _ODD
        hashes ^= hashes >> _HALF_BITS
        hashes *= _OTHER_ODD
    return hashes


def _values(values: ColumnValues, name: str) -> NDArray[np.uint64]:
    """Return numbers that are equal for equal values."""
    if isinstance(values, Ints):
        numbers = np.frombuffer(values.values, np.uint64)
        if values.valid is None:
            return numbers
        return np.where(np.frombuffer(values.valid, np.bool_), numbers, _NULL)
    if isinstance(values, Lists):
        return _lists(values, name)
    codes = np.frombuffer(values.codes, np.int32)
    if name not in _OUR_WORDS:
        return (codes < 0).astype(np.uint64)
    codes_in_use, words = words_in_use(values)
    # Code -1, null, is the last item.
    hashes = np.array([*(hash(word) & _LOW_64_BITS for word in words), _NULL], np.uint64)
    return hashes[np.frombuffer(codes_in_use, np.int32)]


def _lists(lists: Lists, name: str) -> NDArray[np.uint64]:
    offsets = np.frombuffer(lists.offsets, np.int64)
    lengths = np.diff(offsets)
    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    fields = [
        _values(inner, f"{name}.{field}" if field else name)
        for field, inner in lists.fields.items()
    ]
    items = _joined(len(places), [places.astype(np.uint64), *fields])
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(items, dtype=np.uint64)))
    return sums[offsets[1:]] - sums[offsets[:-1]] + lengths.astype(np.uint64)


def _texts(values: ColumnValues) -> list[str | None]:
    assert isinstance(values, Words)
    codes, words = words_in_use(values)
    return list(map([*words, None].__getitem__, codes))
