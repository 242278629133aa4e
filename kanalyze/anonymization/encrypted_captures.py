"""Captures whose TLS stays encrypted.

In: open captures. Out: the same, without the secrets inside them. Anonymized bytes of decrypted
messages would have no place in the packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kanalyze.runtime.stages import Captures

__all__ = ["EncryptedCaptures"]


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
