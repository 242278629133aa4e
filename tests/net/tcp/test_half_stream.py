from __future__ import annotations

import pytest

from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.delivery import Segment
from kanalyze.net.tcp.half_stream import HalfStream
from kanalyze.net.tcp.limits import ReassemblyLimits
from tests.support.packets import ACK, FIN, RST


def new_half_stream(sequence: int = 1000, *, has_syn: bool = True) -> HalfStream:
    connection = TcpConnection(1, (Endpoint("a", 1), Endpoint("b", 2)), 1, 0, 0, 0)
    half = HalfStream(connection, 0, ReassemblyLimits(), LayerStats())
    half.start(sequence, has_syn=has_syn)
    return half


def test_a_second_fin_at_another_offset_is_ignored():
    half = new_half_stream()
    half.finish_at(10)
    half.finish_at(20)
    assert half.fin_offset == 10
    assert not half.is_in_order()


def test_a_stream_is_in_order_while_nothing_is_buffered():
    assert new_half_stream().is_in_order()


@pytest.mark.parametrize(
    ("stream_offset", "length", "flags", "is_probe"),
    [
        (-1, 0, ACK, True),
        (-1, 1, ACK, True),
        (-1, 2, ACK, False),
        (0, 0, ACK, False),
        (-2, 1, ACK, False),
        (-1, 0, ACK | RST, False),
        (-1, 0, ACK | FIN, False),
    ],
)
def test_a_probe_has_at_most_one_byte_just_before_the_next_byte(
    stream_offset, length, flags, is_probe
):
    piece = Segment(0, 0, flags, 0, length, length, 0, 1, 0, 0)
    assert new_half_stream().is_probe(piece, stream_offset) is is_probe
