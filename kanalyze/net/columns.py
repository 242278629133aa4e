"""Where headers are, in many packets at once.

In: places in a buffer. Out: some of them. Must not know: any header.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Places"]


@dataclass(frozen=True, slots=True)
class Places:
    """Where a header begins, in some packets of a batch, in their order."""

    row: NDArray[np.int64]
    """Index of the packet in its batch."""
    at: NDArray[np.int64]
    """Index in the buffer of the header's first byte."""
    limit: NDArray[np.int64]
    """Index in the buffer of the end of the packet, as far as it was captured."""

    def __len__(self) -> int:
        return len(self.row)

    def pick(self, wanted: NDArray[np.bool_]) -> Places:
        """Keep some; all of them cost nothing."""
        if wanted.all():
            return self
        return Places(self.row[wanted], self.at[wanted], self.limit[wanted])
