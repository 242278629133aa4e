"""Names the capture of each row, and numbers the row's packets in it.

In: columns with packet numbers over all captures. Out: the same columns with numbers in the capture
that a row is of, and the column of captures. Must not know: how captures are merged.

Compiled by Cython, with the types in ``packet_numbers.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.tables.columns.buffers import IntBuffer, WordBuffer, ints_of, words_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PacketNumbers"]

_LARGEST_INT64 = 2**63 - 1


class PacketNumbers:
    """The columns of captures and packets of the rows of requests."""

    def __init__(
        self,
        buffers: dict[str, IntBuffer | WordBuffer],
        locate: Callable[[int], tuple[str, int | None]],
        *,
        are_all_numbered: bool,
    ) -> None:
        """Make it; see :class:`~kanalyze.tables.requests.row_assembler.RowAssembler`."""
        self._locate = locate
        self._are_all_numbered = are_all_numbered
        self._capture: WordBuffer = words_of(buffers, "capture")
        self._requests: IntBuffer = ints_of(buffers, "request_packet")
        self._responses: IntBuffer = ints_of(buffers, "response_packet")

    def number(self, count: int) -> None:
        """Number the packets of the first ``count`` rows."""
        requests, responses = self._requests, self._responses
        low, high = _LARGEST_INT64, -1
        for buffer in (requests, responses):
            low, high = min(low, buffer.least(count)), max(high, buffer.largest(count))
        if high < 0:
            self._capture.fill(count, self._capture.code(""))
            return
        capture, number = self._locate(low)
        other, last_number = self._locate(high)
        # If a packet of another capture came between the two, it would have a number between.
        is_run = capture == other and number is not None and last_number == number + high - low
        if self._are_all_numbered and is_run and number is not None:
            requests.shift(count, number - low)
            responses.shift(count, number - low)
            self._capture.fill(count, self._capture.code(capture))
            return
        for at in range(count):
            capture = ""
            for buffer in (responses, requests):
                packet = buffer.get(at)
                if packet is not None:
                    capture, number = self._locate(packet)
                    buffer.change(at, number)
            self._capture.put(at, capture)
