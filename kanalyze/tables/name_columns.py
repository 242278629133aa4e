"""Adds names of addresses to rows as columns.

In: blocks of rows with a connection and a time; names; what responses say of brokers. Out: the same
rows with :data:`~kanalyze.spec.rows.names.NAME_COLUMNS` as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.spec.columns import columns_named
from kanalyze.spec.rows.cluster import METADATA_COLUMNS
from kanalyze.spec.rows.names import NAME_COLUMNS, Names
from kanalyze.tables.columns.block import Ints, RowBlock, Words, words_in_use
from kanalyze.tables.names import ALWAYS_NS, BrokerFact, known_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.tables.names import AddressNames, KnownNames

_UNKNOWN = Names(*[None] * len(NAME_COLUMNS))
_FACTS = columns_named(METADATA_COLUMNS, *BrokerFact._fields)


class NameColumns:
    """Adds the names of the two ends of each row's connection."""

    def __init__(self, names: AddressNames, time: str) -> None:
        """Store the names; ``time`` is the column with the time at which a row's names hold."""
        self._names = names
        self._time = time
        self.needed = "connection", time
        """The columns that names are found by."""
        self._facts: dict[BrokerFact, None] = {}
        self._ends: dict[str, _Ends] = {}
        """By connection; no more than are in one block, besides those of the block before."""

    def learn(self, metadata: RowBlock) -> None:
        """Take over what lines of ``metadata`` say of brokers, for rows from now on."""
        known = len(self._facts)
        told = zip(*metadata.values(_FACTS), strict=True)
        self._facts.update((BrokerFact(*line), None) for line in told if None not in line[:3])
        if len(self._facts) > known:
            self._ends.clear()

    def named(self, block: RowBlock) -> RowBlock:
        """Return the same rows with the columns of names."""
        connections, times = block.columns["connection"], block.columns[self._time]
        assert isinstance(connections, Words)
        assert isinstance(times, Ints)
        codes, words = words_in_use(connections)
        self._ends = {word: self._ends.get(word) or self._ends_of(word) for word in words}
        ends = list(self._ends.values())
        places: dict[Names, int] = {}
        if all(end.are_timeless for end in ends):
            found = [places.setdefault(end.at(0), len(places)) for end in ends]
            found.append(places.setdefault(_UNKNOWN, len(places)))
            numbers = [found[code] for code in codes]  # -1, of no connection, is the last
        else:
            # A time that is null is stored as 0.
            numbers = [
                places.setdefault(ends[code].at(time) if code >= 0 else _UNKNOWN, len(places))
                for code, time in zip(codes, times.values, strict=True)
            ]
        names = RowBlock.of_rows(list(places), NAME_COLUMNS).take(numbers)
        return RowBlock(len(block), {**block.columns, **names.columns})

    def _ends_of(self, connection: str) -> _Ends:
        client, _, broker = connection.partition(">")
        broker_ip, port = _address(broker)
        known, node_id = self._names.at_broker(broker_ip, int(port), self._facts)
        return _Ends(self._names.at(_address(client)[0]), known, node_id)


def _address(end: str) -> tuple[str, str]:
    """Return the address, without brackets, and the port of an end of a connection."""
    address, _, port = end.rpartition(":")
    return address.strip("[]"), port if port.isdecimal() else "0"


class _Ends:
    """What is known of the two ends of a connection."""

    def __init__(
        self, client: Sequence[KnownNames], broker: Sequence[KnownNames], broker_id: int | None
    ) -> None:
        self._client = client
        self._broker = broker
        self._broker_id = broker_id
        self.are_timeless = all(each[:2] == ALWAYS_NS for each in (*client, *broker))

    def at(self, time_ns: int) -> Names:
        """Return the names at a time."""
        client, broker = known_at(self._client, time_ns), known_at(self._broker, time_ns)
        return Names(
            *((client.name, client.app, client.zone) if client else (None, None, None)),
            broker.name if broker else None,
            self._broker_id,
            broker.zone if broker else None,
        )
