"""The options behind the packets of a pcapng file, read for a whole batch of packets at once.

In: where the options of each packet begin and end. Out: columns of options. Must not know: what
an option means.

There may be none, or some behind every packet (flags, hashes): a Python object for each would cost
more than reading the packets. So the first option of all packets is read at once, then the second
of those that have one, and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from kanalyze.gathers import gather, overlapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["LEAST_OPTION_BYTES", "PacketOptions"]

LEAST_OPTION_BYTES: Final = 8
"""Of an option with a value; where less is left there is an end mark, or nothing is said."""

_Round: TypeAlias = """tuple[
    NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]
]"""


class PacketOptions:
    """The options of packets; ``at`` and ``end``, an entry a packet, bound them in ``buffer``."""

    def __init__(
        self, buffer: memoryview, order: str, at: NDArray[np.int64], end: NDArray[np.int64]
    ) -> None:
        self._buffer = buffer
        self._order = order
        self._at = at
        self._end = end

    def rounds(self, which: NDArray[np.int64], most: int) -> Iterator[_Round]:
        """Yield the first options of the packets ``which``, then the second, at most ``most``.

        Each as four columns: index of the packet, code, place of the value, length of the value,
        which lies within the packet's options. A packet's options end at the end mark, at one that
        is cut, or at a last one without a value.
        """
        unit = f"{self._order}u2"
        layout = np.dtype([("code", unit), ("length", unit)])
        at = self._at[which]
        for _ in range(most):
            fits = at + LEAST_OPTION_BYTES <= self._end[which]
            which, at = which[fits], at[fits]
            if not len(which):
                return
            header = gather(self._buffer, layout, at)
            codes, lengths = header["code"].astype(np.int64), header["length"].astype(np.int64)
            good = (codes != 0) & (at + 4 + lengths <= self._end[which])
            which, at, codes, lengths = which[good], at[good], codes[good], lengths[good]
            if not len(which):
                return
            yield which, codes, at + 4, lengths
            at = at + 4 + ((lengths + 3) & ~3)

    def unsigned(self, places: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Read the 64-bit numbers at ``places``."""
        words = overlapping(self._buffer, f"{self._order}u8")[places]
        return words.astype(np.uint64)
