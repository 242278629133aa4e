"""Replaces packet numbers over all captures by a capture and the numbers in it.

In: columns with packet numbers over all captures. Out: the same columns with numbers in the row's
capture, and the column of captures. This module must not know how captures are merged.

Compiled by Cython, with the types in ``packet_numbers.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kanalyze.tables.columns.buffers import IntBuffer, WordBuffer, ints_of, words_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PacketNumbers"]

_LARGEST_INT64 = 2**63 - 1
_MOST_RUNS = 64
"""With more runs, for example if captures overlap in time, rows are numbered one by one."""


class PacketNumbers:
    """The columns of captures and packets of the rows of requests."""

    def __init__(
        self,
        buffers: dict[str, IntBuffer | WordBuffer],
        locate: Callable[[int], tuple[str, int | None]],
        *,
        are_all_numbered: bool,
    ) -> None:
        """Use ``buffers``; see :class:`~kanalyze.tables.requests.row_assembler.RowAssembler`."""
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
        if not (self._are_all_numbered and self._number_runs(count, low, high)):
            self._number_each(count)

    def _number_runs(self, count: int, low: int, high: int) -> bool:
        """Number the rows by runs: each is a range of consecutive packets of one capture.

        Returns false, and changes nothing, if there are too many runs from packet ``low`` to
        ``high``, or if a packet has no number.
        """
        runs = _runs_between(self._locate, low, high)
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
                    capture, number = self._locate(packet)
                    buffer.change(at, number)
            self._capture.put(at, capture)


def _runs_between(
    locate: Callable[[int], tuple[str, int | None]], low: int, high: int
) -> list[tuple[int, int, str]]:
    """Return the runs of consecutive packets of one capture from packet ``low`` to ``high``.

    A run is its first packet, the number to add to its packets' numbers, and the capture. The list
    is empty if a packet has no number, or if there are too many runs.

    A run ends where the difference between the two numbers of a packet changes. So its end is found
    by binary search.
    """
    runs: list[tuple[int, int, str]] = []
    first = low
    while first <= high:
        capture, number = locate(first)
        if number is None or len(runs) == _MOST_RUNS:
            return []
        shift = number - first
        runs.append((first, shift, capture))
        last, beyond = first, high + 1
        middle = high
        while beyond - last > 1:
            if locate(middle) == (capture, middle + shift):
                last = middle
            else:
                beyond = middle
            middle = (last + beyond) // 2
        first = beyond
    return runs
