"""Packets of rows, and the capture point."""

from __future__ import annotations

import pytest

from kanalyze.capture.merge import PacketIndex, PacketRun
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.requests.row_columns import capture_point

NAMES = ("capture", "request_packet", "response_packet")
COLUMNS_OF_PACKETS = [column for column in COLUMNS if column.name in NAMES]


class Locations:
    """Where packets are."""

    def __init__(self, *runs: tuple[int, int, int], names=("a.pcap", "b.pcap")) -> None:
        """Each run is the index of a capture, its first packet's number there, and a count."""
        self._names = names
        self._index = PacketIndex(max_runs=max(len(runs), 1))
        for run in runs:
            self._index.add(*run)

    def locate(self, number: int) -> tuple[str, int | None]:
        return self._index.locate(number, self._names, is_alone=len(self._names) == 1)

    def runs_between(self, low: int, high: int, most: int) -> list[PacketRun] | None:
        return self._index.runs_between(low, high, most, self._names)


TWO_FILES = Locations((0, 1, 10), (1, 1, 10))
"""Packets 1 to 10 are in one capture, those from 11 on in a second one."""


def numbered(core, rows, locations=TWO_FILES):
    buffers = core.buffers.buffers_of(COLUMNS_OF_PACKETS)
    for name in NAMES:
        buffers[name].make_room(len(rows))
    for at, (request, response) in enumerate(rows):
        buffers["request_packet"].put_any(at, request)
        buffers["response_packet"].put_any(at, response)
    core.row_columns.PacketNumbers(buffers, locations).number(len(rows))
    codes, words = buffers["capture"].drain(len(rows))
    packets = [
        (buffers["request_packet"].get(at), buffers["response_packet"].get(at))
        for at in range(len(rows))
    ]
    return [words[code] for code in codes], packets


@pytest.mark.parametrize(
    ("rows", "captures", "packets"),
    [
        ([(1, 4), (3, None)], ["a.pcap"] * 2, [(1, 4), (3, None)]),
        ([(13, 20)], ["b.pcap"], [(3, 10)]),
        ([(2, 3), (12, 13)], ["a.pcap", "b.pcap"], [(2, 3), (2, 3)]),
        ([(10, 11)], ["a.pcap"], [(10, 1)]),
        ([(None, 5)], ["a.pcap"], [(None, 5)]),
        ([(None, None), (5, None)], ["a.pcap"] * 2, [(None, None), (5, None)]),
        ([(None, None), (5, 12)], ["", "a.pcap"], [(None, None), (5, 2)]),
        ([(None, None)], [""], [(None, None)]),
        ([], [], []),
    ],
)
def test_a_row_belongs_to_the_capture_of_its_request(core, rows, captures, packets):
    assert numbered(core, rows) == (captures, packets)


def test_the_number_of_an_unnumbered_packet_is_null(core):
    assert numbered(core, [(3, 4)], Locations(names=("pipe",))) == (["pipe"], [(None, None)])


def test_captures_may_take_turns(core):
    """In one bucket of an archive another capture may have a single packet between two."""
    turns = Locations((0, 1, 4), (1, 7, 1), (0, 6, 2))
    rows = [(4, None), (5, 6), (6, 7)]
    assert numbered(core, rows, turns) == (
        ["a.pcap", "b.pcap", "a.pcap"],
        [(4, None), (7, 6), (6, 7)],
    )


def test_with_many_turns_rows_are_numbered_one_by_one(core):
    turns = Locations(*((number % 2, number, 1) for number in range(1, 201)))
    rows = [(number, None) for number in range(1, 201)]
    assert numbered(core, rows, turns) == (["b.pcap", "a.pcap"] * 100, rows)


MS = 1_000_000


@pytest.mark.parametrize(
    ("client_ns", "broker_ns", "expected"),
    [
        (20_000, 25 * MS, "client"),
        (25 * MS, 20_000, "broker"),
        (5 * MS, 20 * MS, "between"),
        (1 * MS, 80 * MS, "between"),
        (300_000, 900_000, None),
        (900_000, 900_000, None),
        (0, 0, None),
        (-1, 25 * MS, None),
        (25 * MS, -1, None),
    ],
)
def test_the_nearer_end_is_where_the_capture_was_taken(client_ns, broker_ns, expected):
    assert capture_point(client_ns, broker_ns) == expected
