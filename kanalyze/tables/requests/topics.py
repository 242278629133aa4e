"""Topics and topic ids as numbers, and tables by keys that are made of them.

In: names and ids, as bytes on a tape. Out: numbers, equal for equal names, that compiled code
compares and stores without making objects; and the names again.

Names come from the wire, so all is bounded: a :class:`TopicTable` that is full is cleared between
two blocks of rows, and with it everything that holds its numbers. The seed of the hashes differs in
each process, so a sender cannot produce collisions.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from kanalyze.kafka.codec.values import NO_UUID, Texts

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import are_equal, texts_from
    from kanalyze.kafka.codec.machine import doubled

    NO_TOPIC = -1  # in place of the number of a topic's name
    METADATA = 1  # the number of the log of metadata: of its name, and of its id
    KEY_CELLS = 4

CACHED = 4096
MIN_SLOTS = 16

if TYPE_CHECKING:
    from collections.abc import Iterator

METADATA_TOPIC, METADATA_TOPIC_ID = "__cluster_metadata", bytes(15) + b"\1"
"""The log of metadata, which controllers and brokers fetch by Raft (KIP-595)."""
_MOST_NAMES = 200_000
_MOST_CHARACTERS = 32 << 20
"""Up to how many names and ids, and characters of names, a table is not full."""

# Odd multipliers with irregular bits, and a secret seed (see net/tcp/segment_iterator.py).
MIX_ONE, MIX_OTHER = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
LOW_64_BITS = 0xFFFF_FFFF_FFFF_FFFF
SEED = hash("a number that differs from process to process") & LOW_64_BITS
_DEAD = -(1 << 62)
"""In place of the first number of a key that was removed."""


class KeyTable:
    """Keys of four numbers, each with the number of its entry: 0, 1, 2, ... as they are added.

    Users keep what belongs to an entry in columns of their own. The numbers of entries change only
    when a key is added after others were removed.

    Attributes:
        count: number of entries, with removed ones.
        removed: number of removed entries.
    """

    def __init__(self) -> None:
        self.keys = memoryview(array("q", bytes(8 * KEY_CELLS * MIN_SLOTS)))
        self.slots = memoryview(array("q", bytes(8 * MIN_SLOTS)))
        self.count = self.removed = 0

    def __len__(self) -> int:
        return self.count - self.removed

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """Iterate over the keys that were not removed, in the order in which they were added."""
        entries = [entry for entry in range(self.count) if not self.is_removed(entry)]
        return iter([self._key(entry) for entry in entries])

    def _key(self, entry: int) -> tuple[int, int, int, int]:
        at = entry * KEY_CELLS
        return self.keys[at], self.keys[at + 1], self.keys[at + 2], self.keys[at + 3]

    def is_removed(self, entry: int) -> bool:
        """Return true if the key of an entry was removed."""
        return self.keys[entry * KEY_CELLS] == _DEAD

    def find(self, first: int, topic: int, topic_id: int, partition: int) -> int:
        """Return the entry of a key; -1 if there is none."""
        mask = len(self.slots) - 1
        slot = _hash(first, topic, topic_id, partition) & mask
        entry = self.slots[slot] - 1
        while entry >= 0:
            at = entry * KEY_CELLS
            if (
                self.keys[at + 3] == partition
                and self.keys[at + 1] == topic
                and self.keys[at + 2] == topic_id
                and self.keys[at] == first
            ):
                return entry
            slot = (slot + 1) & mask
            entry = self.slots[slot] - 1
        return -1

    def add(self, first: int, topic: int, topic_id: int, partition: int) -> int:
        """Add a key that is not there; return its entry."""
        if 2 * (self.count + 1) > len(self.slots):
            self._grow()
        entry = self.count
        at = entry * KEY_CELLS
        self.keys[at], self.keys[at + 1] = first, topic
        self.keys[at + 2], self.keys[at + 3] = topic_id, partition
        self.count = entry + 1
        self._place(entry)
        return entry

    def remove(self, entry: int) -> None:
        """Remove the key of an entry."""
        self.keys[entry * KEY_CELLS] = _DEAD
        self.removed += 1

    def clear(self) -> None:
        """Remove all keys."""
        if len(self.slots) > MIN_SLOTS and len(self.slots) > 8 * self.count:
            self.slots = memoryview(array("q", bytes(8 * MIN_SLOTS)))  # most would be zeroed again
        elif self.count > 0:
            for slot in range(len(self.slots)):
                self.slots[slot] = 0
        self.count = self.removed = 0

    def _place(self, entry: int) -> None:
        at = entry * KEY_CELLS
        mask = len(self.slots) - 1
        slot = _hash(self.keys[at], self.keys[at + 1], self.keys[at + 2], self.keys[at + 3]) & mask
        while self.slots[slot] != 0:
            slot = (slot + 1) & mask
        self.slots[slot] = entry + 1

    def _grow(self) -> None:
        """Close the gaps of removed keys; make room for twice as many if there are few gaps."""
        count = 0
        for entry in range(self.count):
            if self.is_removed(entry):
                continue
            for cell in range(KEY_CELLS):
                self.keys[count * KEY_CELLS + cell] = self.keys[entry * KEY_CELLS + cell]
            count += 1
        size = len(self.slots)
        if 4 * count >= size:
            size *= 2
            if KEY_CELLS * size > 2 * len(self.keys):
                self.keys = doubled(self.keys)
        self.slots = memoryview(array("q", bytes(8 * size)))
        self.count, self.removed = count, 0
        for entry in range(count):
            self._place(entry)


def _hash(first: int, topic: int, topic_id: int, partition: int) -> int:
    mixed = (SEED ^ (partition & LOW_64_BITS)) * MIX_ONE & LOW_64_BITS
    mixed = (mixed ^ mixed >> 29 ^ (topic & LOW_64_BITS)) * MIX_OTHER & LOW_64_BITS
    mixed = (mixed ^ mixed >> 32 ^ (topic_id & LOW_64_BITS)) * MIX_ONE & LOW_64_BITS
    mixed = (mixed ^ mixed >> 29 ^ (first & LOW_64_BITS)) * MIX_OTHER & LOW_64_BITS
    return mixed >> 33


class TopicTable:
    """The numbers of names and ids of topics.

    The empty name and the id of zeros are 0, in place of a name or an id that is not there too.
    Names of equal text have one number, whatever their bytes.

    Attributes:
        generation: rises when the table is cleared; then all numbers have another meaning.
        texts: makes the texts of other fields.
    """

    def __init__(self) -> None:
        self.texts = Texts()
        self.generation = 0
        self._begin()

    def _begin(self) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._ids: list[bytes] = []
        self._id_numbers: dict[bytes, int] = {}
        self._characters = 0
        # By number of a name: its bytes, once they were read; by number of an id: its two halves.
        self._begins = memoryview(array("q", bytes(8 * 64)))
        self._sizes = memoryview(array("q", bytes(8 * 64)))
        self._bytes = memoryview(bytearray(1024))
        self._bytes_used = 0
        self._halves = memoryview(array("q", bytes(16 * 64)))
        # The number that was last looked up with a hash.
        self._cached = memoryview(array("q", bytes(8 * CACHED)))
        self._cached_ids = memoryview(array("q", bytes(8 * CACHED)))
        for name in ("", METADATA_TOPIC):
            self.number_of(name)
        for topic_id in (NO_UUID, METADATA_TOPIC_ID):
            self.number_of_id(topic_id)

    @property
    def is_full(self) -> bool:
        """True if the table should be cleared."""
        names = max(len(self._names), len(self._ids))
        return names > _MOST_NAMES or self._characters > _MOST_CHARACTERS

    def clear(self) -> None:
        """Forget all names and ids."""
        self._begin()
        self.generation += 1

    # -- names ------------------------------------------------------------------------------------

    def number(self, data: Any, begin: int, size: int) -> int:
        """Return the number of the name whose bytes are ``data[begin:begin + size]``.

        The caller has seen that they are there.
        """
        if size == 0:
            return 0
        mixed = SEED
        for i in range(begin, begin + size):
            mixed = (mixed ^ data[i]) * MIX_ONE & LOW_64_BITS
        slot = (mixed >> 40) & (CACHED - 1)
        number = self._cached[slot]
        if number > 0 and self._is_at(number, data, begin, size):
            return number
        number = self._looked_up(data, begin, size)
        self._cached[slot] = number
        return number

    def _is_at(self, number: int, data: Any, begin: int, size: int) -> bool:
        return self._sizes[number] == size and are_equal(
            data, begin, texts_from(self._bytes, self._begins[number]), size
        )

    def _looked_up(self, data: Any, begin: int, size: int) -> int:
        name_bytes = bytes(data[begin : begin + size])
        number = self.number_of(str(name_bytes, "utf-8", "backslashreplace"))
        if number > 0 and self._sizes[number] == 0:
            at = self._bytes_used
            if at + size > len(self._bytes):
                larger = bytearray(self._bytes) + bytes(max(size, len(self._bytes)))
                self._bytes = memoryview(larger)
            self._begins[number], self._sizes[number] = at, size
            for i in range(size):
                self._bytes[at + i] = data[begin + i]
            self._bytes_used = at + size
        return number

    def number_of(self, name: str | None) -> int:
        """Return the number of a name; ``NO_TOPIC`` for None."""
        if name is None:
            return NO_TOPIC
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
            self._characters += len(name)
            if number >= len(self._sizes):
                self._begins = doubled(self._begins)
                self._sizes = doubled(self._sizes)
        return number

    def name(self, number: int) -> str | None:
        """Return the name with a number; None for ``NO_TOPIC``."""
        return None if number < 0 else self._names[number]

    # -- ids --------------------------------------------------------------------------------------

    def id_number(self, high: int, low: int) -> int:
        """Return the number of an id, of which two signed 64-bit numbers are the halves."""
        if high == 0 and low == 0:
            return 0
        mixed = (SEED ^ (high & LOW_64_BITS)) * MIX_ONE & LOW_64_BITS
        mixed = (mixed ^ mixed >> 29 ^ (low & LOW_64_BITS)) * MIX_OTHER & LOW_64_BITS
        slot = (mixed >> 40) & (CACHED - 1)
        number = self._cached_ids[slot]
        if number == 0 or self._halves[2 * number] != high or self._halves[2 * number + 1] != low:
            number = self.number_of_id(
                (high & LOW_64_BITS).to_bytes(8, "big") + (low & LOW_64_BITS).to_bytes(8, "big")
            )
            self._cached_ids[slot] = number
        return number

    def number_of_id(self, topic_id: bytes) -> int:
        """Return the number of an id."""
        number = self._id_numbers.get(topic_id)
        if number is None:
            number = self._id_numbers[topic_id] = len(self._ids)
            self._ids.append(topic_id)
            if 2 * number >= len(self._halves):
                self._halves = doubled(self._halves)
            self._halves[2 * number] = int.from_bytes(topic_id[:8], "big", signed=True)
            self._halves[2 * number + 1] = int.from_bytes(topic_id[8:], "big", signed=True)
        return number

    def id(self, number: int) -> bytes:
        """Return the id with a number."""
        return self._ids[number]
