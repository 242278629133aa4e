"""Checks that an anonymized capture says what the original said, but for names.

In: captures, and the capture that was made of them. Out: what differs, in lines for people.

Both are analyzed at once, and each row is compared by a hash of what has to be the same: times,
sizes, numbers, APIs, statuses, errors, kinds of anomalies; of names, only whether there is one. The
order of rows does not matter. Memory is taken by rows that were found in one of the two only.

What anonymizing blanks on purpose is left out: requests of Kafka 0.7, what is known of connections
that are not plaintext Kafka besides their packets and times, anomalies of the files; and, where
records are cut off, what a snap length changes.

TLS stays encrypted, here as where the capture was made: anonymized bytes of decrypted messages
would have no place in the packets.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from kanalyze.capture.merge import MergedCaptures
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.tables import ALWAYS, TABLES
from kanalyze.tables.columns.block import Ints, Lists, Words, words_in_use

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.capture.merge import MergeInput
    from kanalyze.runtime.stages import Captures
    from kanalyze.runtime.table_rows import TableRows
    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.columns.block import ColumnValues, RowBlock

__all__ = ["EncryptedCaptures", "OutputCheck"]


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


class _Row(NamedTuple):
    """What is known of a row: its table, its hash, and whose it is."""

    table: str
    hash: int


class OutputCheck:
    """Compares a capture with those that it was made of: :meth:`differences`, once."""

    def __init__(
        self,
        originals: Sequence[MergeInput],
        written: str,
        *,
        strips_records: bool = False,
        **settings: Any,
    ) -> None:
        """Open nothing yet.

        Args:
            originals: the captures, in the order of their first packets; several became one.
            written: path of the capture that was made of them.
            strips_records: whether records were cut off.
            **settings: how captures are read, arguments of
                :class:`~kanalyze.runtime.pipeline.Analysis`.
        """
        self._captures = MergedCaptures(originals), MergedCaptures([written])
        self._sides = [
            _Side(sign, Analysis((), source=EncryptedCaptures(captures), **settings))
            for sign, captures in zip((1, -1), self._captures, strict=True)
        ]
        left_out = _OF_FILES | (_OF_SNAPPED if strips_records else frozenset())
        if len(originals) > 1:
            left_out |= _PACKET_NUMBERS
        self._columns = {
            table: [column for column in TABLES[table].columns if column.name not in left_out]
            for table in ALWAYS
        }
        self._left_out_kinds = _BLANKED_KINDS | (_SNAPPED_KINDS if strips_records else frozenset())
        self._unmatched: dict[_Row, int] = {}
        """How many more of equal rows the originals have; fewer if negative."""
        self._connections: dict[_Row, str] = {}
        """The connection of each row in ``_unmatched``; empty for rows without one."""

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far of both, and bytes in all."""
        (done, total), (more_done, more) = (captures.progress for captures in self._captures)
        return done + more_done, None if total is None or more is None else total + more

    def differences(self) -> tuple[str, ...]:
        """Read both; return a line for each table in which more than names differs.

        Raises:
            CaptureError: one of them cannot be read.
        """
        reading = [iter(side.analysis.table_rows()) for side in self._sides]
        with self._captures[0], self._captures[1]:
            while reading[0] is not _ENDED or reading[1] is not _ENDED:
                if len(self._unmatched) > _MAX_UNMATCHED:
                    return self._lines("at least ")
                self._read_on(reading)
        for side in self._sides:
            for hashes in side.held.values():
                self._add(side, "anomalies", hashes)
        return self._lines("")

    def _read_on(self, reading: list[Iterator[TableRows]]) -> None:
        """Read the next rows of the capture of which fewer were read, so that few wait."""
        ended = [each is _ENDED for each in reading]
        index = ended.index(False) if True in ended else int(self._is_ahead())
        rows = next(reading[index], None)
        if rows is None:
            reading[index] = _ENDED
            return
        side = self._sides[index]
        for block in rows.requests:
            self._add_requests(side, block)
        # An anomaly comes before its connection has closed.
        self._hold_anomalies(side, rows.anomalies)
        for row in rows.connections:
            self._add_connection(side, row)

    def _is_ahead(self) -> bool:
        return self._sides[0].rows > self._sides[1].rows

    # -- rows -------------------------------------------------------------------------------------

    def _add_requests(self, side: _Side, block: RowBlock) -> None:
        side.rows += len(block)
        hashes = _hashes(block, self._columns["requests"])
        wires, connections = _texts(block.columns["wire"]), _texts(block.columns["connection"])
        pairs = [
            (hash_, connection or "")
            for hash_, wire, connection in zip(hashes, wires, connections, strict=True)
            if wire == _KAFKA
        ]
        self._add(side, "requests", pairs)

    def _hold_anomalies(self, side: _Side, rows: Sequence[AnomalyRow]) -> None:
        """Keep anomalies of connections until it is known what their connections are."""
        side.rows += len(rows)
        for row in rows:
            if row.stage == "capture" or row.kind in self._left_out_kinds:
                continue
            pair = _hash_of_row(row, self._columns["anomalies"]), row.connection or ""
            if row.stage == "net" or row.connection is None:
                self._add(side, "anomalies", [pair])
            else:
                side.held.setdefault(_ends(row), []).append(pair)

    def _add_connection(self, side: _Side, row: ConnectionRow) -> None:
        side.rows += 1
        held = side.held.pop(_ends(row), [])
        if row.protocol == _KAFKA:
            self._add(side, "anomalies", held)
            hash_ = _hash_of_row(row, self._columns["connections"])
        else:
            ports = tuple(sorted((row.client_port, row.broker_port)))
            packets = row.client_packets + row.broker_packets
            payload_bytes = row.client_payload_bytes + row.broker_payload_bytes
            hash_ = hash((ports, packets, payload_bytes, *_of_other(row)))
        self._add(side, "connections", [(hash_, row.connection)])

    def _add(self, side: _Side, table: str, pairs: Iterable[tuple[int, str]]) -> None:
        unmatched = self._unmatched
        for hash_, connection in pairs:
            row = _Row(table, hash_)
            count = unmatched.get(row, 0) + side.sign
            if count:
                unmatched[row] = count
                self._connections[row] = connection
            else:
                del unmatched[row], self._connections[row]

    # -- lines ------------------------------------------------------------------------------------

    def _lines(self, about: str) -> tuple[str, ...]:
        lines = []
        for table in ALWAYS:
            parts = [
                f"{about}{sum(counts.values()):,} only in the {place} ({_named(counts)})"
                for sign, place in ((1, "original"), (-1, "anonymous capture"))
                if (counts := self._unmatched_of(table, sign))
            ]
            if parts:
                lines.append(f"{table}: {', '.join(parts)}")
        return tuple(lines)

    def _unmatched_of(self, table: str, sign: int) -> Counter[str]:
        """Return how many rows of a table one of the two has more, by connection."""
        counts: Counter[str] = Counter()
        for row, count in self._unmatched.items():
            if row.table == table and count * sign > 0:
                counts[self._connections[row]] += abs(count)
        return counts


class _Side:
    """One of the two that are compared."""

    def __init__(self, sign: int, analysis: Analysis) -> None:
        self.sign = sign
        self.analysis = analysis
        self.rows = 0
        """Number of rows so far."""
        self.held: dict[object, list[tuple[int, str]]] = {}
        """Anomalies of open connections: their hashes, and the connection's name."""


_ENDED: Final[Iterator[Any]] = iter(())


def _named(counts: Counter[str]) -> str:
    """Return the connections with most rows, by name."""
    names = [name or "no connection" for name, _ in counts.most_common(_MAX_NAMED)]
    more = len(counts) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


def _ends(row: AnomalyRow | ConnectionRow) -> object:
    """Return what connection a row is of, whichever end counts as the client."""
    ends = {(row.client_ip, row.client_port), (row.broker_ip, row.broker_port)}
    return frozenset(ends), row.connection_number


# -- hashes ---------------------------------------------------------------------------------------


def _hash_of_row(row: AnomalyRow | ConnectionRow, columns: Sequence[Column]) -> int:
    return hash(tuple([_kept(getattr(row, column.name), column.name) for column in columns]))


def _kept(value: Any, name: str) -> Any:
    """Return what has to be the same of a value: a text of ours, a number; not a name."""
    if isinstance(value, list | tuple):
        return tuple([_kept(item, name) for item in value])
    return value is None if isinstance(value, str | None) and name not in _OUR_WORDS else value


def _hashes(block: RowBlock, columns: Sequence[Column]) -> list[int]:
    """Return for each row a hash of what has to be the same in both captures."""
    parts: list[list[Any]] = []
    for column in columns:
        parts += _parts(block.columns[column.name], column.name)
    return list(map(hash, zip(*parts, strict=True)))


def _parts(values: ColumnValues, name: str) -> Iterator[list[Any]]:
    """Yield lists that have an item for each row, equal for equal rows."""
    if isinstance(values, Ints):
        numbers: list[Any] = values.values.tolist()
        if values.valid is not None:
            pairs = zip(numbers, values.valid, strict=True)
            numbers = [number if is_valid else None for number, is_valid in pairs]
        yield numbers
    elif isinstance(values, Lists):
        items: list[list[Any]] = []
        for field, inner in values.fields.items():
            items += _parts(inner, f"{name}.{field}" if field else name)
        hashes = list(map(hash, zip(*items, strict=True)))
        yield [tuple(hashes[first:end]) for first, end in pairwise(values.offsets)]
    elif name in _OUR_WORDS:
        yield _texts(values)
    else:
        yield [code < 0 for code in values.codes]


def _texts(values: ColumnValues) -> list[str | None]:
    assert isinstance(values, Words)
    codes, words = words_in_use(values)
    # Code -1, null, is the last item.
    return list(map([*words, None].__getitem__, codes))


class EncryptedCaptures:
    """Reads captures as :class:`~kanalyze.runtime.stages.Captures` does."""

    description = None

    def __init__(self, captures: Captures) -> None:
        self._captures = captures
        self.anomalies = captures.anomalies
        self.can_be_read_again = captures.can_be_read_again
        self.batches = captures.batches
        self.locate = captures.locate
        self.runs_between = captures.runs_between

    @property
    def names(self) -> list[str]:
        """The captures opened so far."""
        return self._captures.names

    @property
    def dropped_packets(self) -> int | None:
        """Number of packets that the capturing machines dropped; None if unknown."""
        return self._captures.dropped_packets

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all."""
        return self._captures.progress
