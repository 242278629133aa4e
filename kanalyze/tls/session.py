"""One TCP connection with TLS: two streams in, two plaintext streams out.

In: new items of both streams of a connection; a key log. Out: items of the plaintext.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.tls.direction import TlsDirection
from kanalyze.tls.negotiation import NOBODY, Decryption, Negotiation, TlsFacts

if TYPE_CHECKING:
    from kanalyze.model.streams import BothItems
    from kanalyze.tls.keylog import KeyLog
    from kanalyze.tls.late_start import LateStarts
    from kanalyze.tls.negotiation import Ends


class TlsSession:
    """The TLS of one TCP connection."""

    _NOT_SAVED = ("_log", "_log_version")
    _SAVED = Saved("_negotiation:here _directions:2*here")

    def __init__(
        self,
        log: KeyLog,
        late_starts: LateStarts,
        from_start: tuple[bool, bool],
        ends: Ends = NOBODY,
    ) -> None:
        """Begin.

        Args:
            log: the secrets; may be empty.
            late_starts: finds sessions that began before the capture, or that are resumed, in the
                same log.
            from_start: by direction, whether the first byte that will be fed is the first one that
                was sent.
            ends: whose sessions are tried first if this one is resumed.
        """
        self._log = log
        self._log_version = log.version
        self._negotiation = Negotiation(log, ends)
        first, second = (
            TlsDirection(
                direction,
                self._negotiation,
                late_starts,
                from_start=from_start[direction],
            )
            for direction in (0, 1)
        )
        self._directions = (first, second)

    @property
    def has_lost_keys(self) -> bool:
        """Whether it was decrypted before the state was loaded, and its keys are missing now."""
        return any(direction.has_lost_keys for direction in self._directions)

    @property
    def facts(self) -> TlsFacts:
        """What is known so far."""
        facts = self._negotiation.facts
        first, second = self._directions
        facts.counts = (first.counts, second.counts)
        outcomes = {first.decryption, second.decryption}
        facts.decryption = next(outcome for outcome in Decryption if outcome in outcomes)
        return facts

    @property
    def lacks_secrets(self) -> bool:
        """Whether the key log lacks secrets of the session's application data at present."""
        return self._negotiation.lacks_secrets

    def note_used(self) -> None:
        """Note in the key log that its secrets of this session were used."""
        self._log.note_used(*self._negotiation.names)

    @property
    def buffered_bytes(self) -> int:
        """Bytes held: less than 1 MiB."""
        return sum(direction.buffered_bytes for direction in self._directions)

    def feed(self, items: BothItems) -> BothItems:
        """Take the items that were added to both streams; return the plaintext, by direction."""
        return self._step(items, is_last=False)

    def close(self, *, gives_up: bool = False) -> BothItems:
        """End the session, as :meth:`feed`; records that still wait are given up.

        With ``gives_up``, more of the connection may come; a gap in both directions stands for it.
        """
        return self._step(([], []), is_last=True, gives_up=gives_up)

    def _step(self, items: BothItems, *, is_last: bool, gives_up: bool = False) -> BothItems:
        if self._log.version != self._log_version:
            self._log_version = self._log.version
            for direction in self._directions:
                direction.keys_came()
        for direction, added in zip(self._directions, items, strict=True):
            direction.add(added)
        # A message of one end may be what a record of the other waits for.
        first, second = self._directions
        while first.run() | second.run():
            pass
        for direction in self._directions:
            direction.end_step(is_last=is_last)
        if is_last and self.facts.decryption is Decryption.DECRYPTED:
            latest = max(first.latest, second.latest)
            for direction in self._directions:
                direction.end_stream(latest, gives_up=gives_up)
        return first.take_plaintext(), second.take_plaintext()
