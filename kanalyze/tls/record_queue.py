"""Records of one direction in order; a record that cannot be read yet waits, with those after it.

In: records as they are cut. Out: the same records, each once, to a function that reads them.

The waiting records are bounded by :data:`MAX_WAITING_BYTES`: beyond that no record waits any more.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import make, save
from kanalyze.tls.records import LostRecords, TlsRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kanalyze.common.plain_values import State

__all__ = ["MAX_WAITING_BYTES", "RecordQueue"]

_Take: TypeAlias = "Callable[[TlsRecord | LostRecords], None]"
"""Reads a record that does not have to wait."""
MAX_WAITING_BYTES: Final = 1 << 18
_RECORD_BYTES: Final = 512
"""Memory of a waiting record without its body."""


class RecordQueue:
    """Passes records on until one has to wait.

    Attributes:
        is_patient: whether records may wait at all.
        waiting_bytes: memory of the records that wait from one step to the next.
    """

    _NOT_SAVED = ("_incoming", "_next", "waiting_bytes")

    def __init__(self) -> None:
        self._incoming: Iterator[TlsRecord | LostRecords | None] = iter(())
        self._next: TlsRecord | None = None
        """The record that has to wait."""
        self._waiting: deque[TlsRecord | LostRecords] = deque()
        self.is_patient = True
        self.waiting_bytes = 0

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes, after :meth:`end_step`."""
        return self.is_patient, tuple([save(item) for item in self._waiting])

    def load_state(self, state: object, _context: object) -> None:
        """Continue from a state; raises ValueError for any other value."""
        self.is_patient, waiting = fields(state, "bt")
        for item_state in items(waiting, "t"):
            # Of an older format, what is lost has fewer values; a record has always more.
            is_loss = len(item_state) <= len(LostRecords._fields)
            item = make(LostRecords, item_state) if is_loss else make(TlsRecord, item_state)
            self._waiting.append(item)
            self.waiting_bytes += _waiting_bytes(item)

    def add(self, records: Iterator[TlsRecord | LostRecords | None]) -> None:
        """Add the records that follow; ``records`` cuts them while it is read."""
        self._incoming = chain(self._popped(), records)

    def run(self, take: _Take, must_wait: Callable[[TlsRecord], bool]) -> bool:
        """Pass records on until one has to wait, or a pause; return whether there were any."""
        has_read = False
        if self._next is not None:
            if self.is_patient and must_wait(self._next):
                return False
            take(self._next)
            self._next, has_read = None, True
        for item in self._incoming:
            if item is None:
                return True
            if isinstance(item, TlsRecord) and self.is_patient and must_wait(item):
                self._next = item
                return has_read
            take(item)
            has_read = True
        return has_read

    def end_step(self, take: _Take) -> None:
        """Keep the records that wait, or pass them on if they are too many."""
        remaining = self._incoming if self._next is None else chain((self._next,), self._incoming)
        waiting: deque[TlsRecord | LostRecords] = deque()
        self.waiting_bytes = 0
        for item in remaining:
            if item is None:
                continue
            if not self.is_patient:
                take(item)
                continue
            waiting.append(item)
            self.waiting_bytes += _waiting_bytes(item)
            if self.waiting_bytes > MAX_WAITING_BYTES:
                self.is_patient = False
                self.waiting_bytes = 0
                while waiting:
                    take(waiting.popleft())
        self._waiting, self._incoming, self._next = waiting, iter(()), None

    def _popped(self) -> Iterator[TlsRecord | LostRecords | None]:
        while self._waiting:
            yield self._waiting.popleft()


def _waiting_bytes(item: TlsRecord | LostRecords) -> int:
    return _RECORD_BYTES + (len(item.body) if isinstance(item, TlsRecord) else 0)
