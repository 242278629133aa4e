"""Packets of rows: the capture they are in, and their numbers there."""

from __future__ import annotations

import pytest

from kanalyze.tables.columns.buffers import buffers_of
from kanalyze.tables.requests.packet_numbers import PacketNumbers
from kanalyze.tables.row import COLUMNS

NAMES = ("capture", "request_packet", "response_packet")
COLUMNS_OF_PACKETS = [column for column in COLUMNS if column.name in NAMES]


def place(number: int) -> tuple[str, int | None]:
    """Packets 0 to 9 are in one capture, the others in a second one; each begins at 1."""
    return ("a.pcap", number + 1) if number < 10 else ("b.pcap", number - 9)


def nowhere(_: int) -> tuple[str, int | None]:
    return "pipe", None


def numbered(rows, place_of=place, *, are_all_numbered=True):
    buffers = buffers_of(COLUMNS_OF_PACKETS)
    for name in NAMES:
        buffers[name].make_room(len(rows))
    for at, (request, response) in enumerate(rows):
        buffers["request_packet"].put_any(at, request)
        buffers["response_packet"].put_any(at, response)
    PacketNumbers(buffers, place_of, are_all_numbered=are_all_numbered).number(len(rows))
    captures = buffers["capture"].drain(len(rows))
    packets = [
        (buffers["request_packet"].get(at), buffers["response_packet"].get(at))
        for at in range(len(rows))
    ]
    return [captures.words[code] for code in captures.codes], packets


@pytest.mark.parametrize("are_all_numbered", [True, False])
@pytest.mark.parametrize(
    ("rows", "captures", "packets"),
    [
        ([(0, 3), (2, None)], ["a.pcap"] * 2, [(1, 4), (3, None)]),
        ([(12, 19)], ["b.pcap"], [(3, 10)]),
        ([(1, 2), (11, 12)], ["a.pcap", "b.pcap"], [(2, 3), (2, 3)]),
        ([(9, 10)], ["a.pcap"], [(10, 1)]),
        ([(None, 4)], ["a.pcap"], [(None, 5)]),
        ([(None, None), (4, None)], ["", "a.pcap"], [(None, None), (5, None)]),
        ([(None, None)], [""], [(None, None)]),
        ([], [], []),
    ],
)
def test_a_row_belongs_to_the_capture_of_its_request(rows, captures, packets, are_all_numbered):
    if rows == [(None, None), (4, None)] and are_all_numbered:
        captures = ["a.pcap"] * 2  # all rows are of one capture
    assert numbered(rows, are_all_numbered=are_all_numbered) == (captures, packets)


def test_the_number_of_an_unnumbered_packet_is_null():
    assert numbered([(3, 4)], nowhere) == (["pipe"], [(None, None)])


def test_numbers_with_gaps_are_looked_up_one_by_one():
    """Another capture may begin and end between two numbers that were left out."""

    def between(number: int) -> tuple[str, int | None]:
        return ("b.pcap", 1) if number == 5 else ("a.pcap", number + 1)

    rows = [(4, None), (5, None), (6, None)]
    found = numbered(rows, between, are_all_numbered=False)
    assert found == (["a.pcap", "b.pcap", "a.pcap"], [(5, None), (1, None), (7, None)])
