"""Replaces packet numbers over all captures by a capture and the numbers in it.

In: columns with packet numbers over all captures. Out: the same columns with numbers in the row's
capture, and the column of captures.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kanalyze.tables.columns.buffers import IntBuffer, WordBuffer, ints_of, words_of

if TYPE_CHECKING:
    from kanalyze.capture.merge import PacketLocations

__all__ = ["PacketNumbers"]

_LARGEST_INT64 = 2**63 - 1
_MAX_RUNS = 64
"""With more runs, for example if captures overlap in time, rows are numbered one by one."""


class PacketNumbers:
    """The columns of captures and packets of the rows of requests."""

    def __init__(
        self, buffers: dict[str, IntBuffer | WordBuffer], locations: PacketLocations
    ) -> None:
        """Use ``buffers``; see :class:`~kanalyze.tables.requests.row_assembler.RowAssembler`."""
        self._locations = locations
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
        elif not self._number_runs(count, low, high):
            self._number_each(count)

    def _number_runs(self, count: int, low: int, high: int) -> bool:
        """Number the rows by runs of packets; return false if that is not possible."""
        runs = self._locations.runs_between(low, high, _MAX_RUNS)
        if not runs:
            return False
        numbers = [(first, shift, self._capture.code(capture)) for first, shift, capture in runs]
        firsts, shifts, codes = (
            memoryview(array("q", column)) for column in zip(*numbers, strict=True)
        )
        if len(runs) == 1:
            self._requests.shift(count, shifts[0])
            self._responses.shift(count, shifts[0])
            self._capture.fill(count, codes[0])
            return True
        requests, responses = self._requests, self._responses
        last = len(runs) - 1
        none = self._capture.code("")
        for at in range(count):
            code = none
            if responses.valid[at]:
                run = last
                while firsts[run] > responses.values[at]:
                    run -= 1
                responses.values[at] += shifts[run]
                code = codes[run]
            if requests.valid[at]:
                run = last
                while firsts[run] > requests.values[at]:
                    run -= 1
                requests.values[at] += shifts[run]
                code = codes[run]
            self._capture.put_code(at, code)
        return True

    def _number_each(self, count: int) -> None:
        """Number the packets one by one."""
        for at in range(count):
            capture = ""
            for buffer in (self._responses, self._requests):
                packet = buffer.get(at)
                if packet is not None:
                    capture, number = self._locations.locate(packet)
                    buffer.change(at, number)
            self._capture.put(at, capture)
