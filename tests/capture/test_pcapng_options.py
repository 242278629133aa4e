from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.capture.pcapng_options import PacketOptions

OPTIONS = st.lists(st.tuples(st.integers(1, 9), st.binary(min_size=1, max_size=9)), max_size=5)


@given(st.lists(OPTIONS, max_size=6), st.sampled_from("<>"), st.booleans())
def test_the_options_of_all_packets_are_found_round_by_round(of_packets, order, end_mark):
    data, at, end = bytearray(b"??"), [], []
    for options in of_packets:
        at.append(len(data))
        for code, value in options:
            data += struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)
        data += bytes(4 * end_mark)
        end.append(len(data))
        data += b"????"
    places = [np.array(column, np.int64) for column in (at, end)]
    columns = PacketOptions(memoryview(data), order, *places)
    found = [[] for _ in of_packets]
    for which, codes, values, lengths in columns.rounds(np.arange(len(at)), 64):
        for packet, code, value, length in zip(which, codes, values, lengths, strict=True):
            found[packet].append((int(code), bytes(data[value : value + length])))
    assert found == of_packets


def test_no_more_options_are_looked_at_than_asked_for():
    data = memoryview(struct.pack("<HHI", 2, 4, 0) * 100)
    columns = PacketOptions(data, "<", np.array([0]), np.array([len(data)]))
    assert len(list(columns.rounds(np.array([0]), 7))) == 7
    assert len(list(columns.rounds(np.array([0]), 1000))) == 100
