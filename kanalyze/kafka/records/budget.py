"""How much of one compressed message may be decompressed, at whatever depth it is nested.

In: limits; compressed bytes. Out: decompressed bytes, never more than the limits allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kanalyze.kafka.records.types import DecompressionLimits, RecordProblem


class DecompressionBudget:
    """How many bytes and messages may still be decompressed, over all depths of one message."""

    def __init__(self, limits: DecompressionLimits, packed_bytes: int, batch_bytes: int) -> None:
        """Allow what the limits allow for a message, by its compressed bytes and all its bytes."""
        self.remaining_bytes = limits.allowed(packed_bytes)
        self.remaining_messages = limits.allowed_records(batch_bytes)

    def decompress(
        self, codec: int, data: bytes, *, wrong_lz4_checksum: bool = False
    ) -> tuple[bytes, RecordProblem | None]:
        """Return decompressed bytes, and why they are incomplete.

        As :func:`~kanalyze.kafka.records.compression.decompress`.
        """
        from kanalyze.kafka.records.compression import decompress  # loaded at every start otherwise

        plain, problem = decompress(
            codec, data, self.remaining_bytes, wrong_lz4_checksum=wrong_lz4_checksum
        )
        self.remaining_bytes -= len(plain)
        return plain, problem
