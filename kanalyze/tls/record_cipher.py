"""What opens a record, whatever its cipher.

In: a record, its sequence number. Out: :class:`Opened`. The ciphers themselves are in
``ciphers.py``, which needs the extra ``tls``. They are apart because the compiled modules that use
a cipher import the module of its type with themselves, with keys or without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kanalyze.tls.records import TlsRecord, TrialRange

__all__ = ["Opened", "RecordCipher", "opened_record"]


class Opened:
    """The content of a record.

    Attributes:
        kind: content type; in TLS 1.3 the inner one.
        content: the plaintext without padding and tag.
    """

    def __init__(self, kind: int, content: bytes | memoryview) -> None:
        self.kind, self.content = kind, content


def opened_record(kind: int, content: bytes | memoryview) -> Opened:
    """Make an :class:`Opened` in a third of the time that calling the class takes."""
    made = Opened.__new__(Opened)
    made.kind, made.content = kind, content
    return made


class RecordCipher:
    """Opens the records of one direction.

    Attributes:
        overhead_bytes: bytes of a record's body beside the content; None where that varies.
        least_bytes: least size of a record's body.
        tries_numbers: whether :meth:`number` tries numbers in turn.
    """

    def __init__(self, overhead_bytes: int | None, least_bytes: int) -> None:
        self.overhead_bytes, self.least_bytes = overhead_bytes, least_bytes
        self.tries_numbers = True

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        """Return the content of a record; None if its tag or MAC is wrong."""
        raise NotImplementedError

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
        """Return the sequence number that opens a record; None if none ``within`` does."""
        highest = min(within.highest, within.lowest + within.most_trials - 1)
        for number in range(within.lowest, highest + 1):
            if self.open(record, number) is not None:
                return number
        return None
