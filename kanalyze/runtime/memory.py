"""How much memory a run may take, and how its parts share it.

In: a number of bytes. Out: :class:`MemoryBounds`.
"""

from __future__ import annotations

from typing import Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError

DEFAULT_MEMORY_BYTES: Final = 1 << 30
MIN_MEMORY_BYTES: Final = 32 << 20


class MemoryBounds(NamedTuple):
    """Limits of memory for connections in bytes.

    The interpreter, the libraries, read buffers and rows that are being written take some 100 MiB
    more. Tables of names and statistics have limits of their own.
    """

    reassembly_bytes: int
    """Limit of open TCP connections, and of segments that wait for a lost one."""
    undecided_bytes: int
    """Limit of connections whose protocol is not known yet. In addition, TLS connections that are
    decrypted or wait for secrets take up to twice as much, and watched handshakes and what proxies
    put before a protocol half as much each."""
    kafka_bytes: int
    """Limit of incomplete messages, and of requests without a response."""

    @classmethod
    def of(cls, total_bytes: int) -> MemoryBounds:
        """Divide ``total_bytes``; raises UsageError if that is too little to work with."""
        if total_bytes < MIN_MEMORY_BYTES:
            least = MIN_MEMORY_BYTES >> 20
            raise UsageError(f"too little memory: {total_bytes} bytes (use at least {least} MiB)")
        return cls(total_bytes // 2, total_bytes // 8, total_bytes * 3 // 8)

    def of_shard(self, count: int) -> MemoryBounds:
        """Return the limits of one of ``count`` parallel workers."""
        return MemoryBounds(
            self.reassembly_bytes // count, self.undecided_bytes // count, self.kafka_bytes // count
        )
