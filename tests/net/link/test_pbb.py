from __future__ import annotations

import pytest

from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.support.packets import Packet, ethernet, ipv4, make_batch, tcp

INNER = ethernet(ipv4(tcp(payload=b"bridged")))


def read(packet: Packet):
    stats = LayerStats()
    return read_headers(make_batch([packet]), stats).payload_bytes.tolist(), stats.counters


@pytest.mark.parametrize("times", [1, 2, 5])
def test_the_frame_behind_the_tag_is_read_also_within_another(times):
    data = INNER
    for _ in range(times):
        data = ethernet(bytes(4) + data, 0x88E7)
    sizes, counters = read(Packet(data))
    assert sizes == [7]
    assert counters.tunnels == {"802.1ah": 1}
    assert counters.other_packets == {}


@pytest.mark.parametrize("size", range(14, 19))
def test_a_tag_that_is_cut_counts_as_cut(size):
    whole = ethernet(bytes(4) + INNER, 0x88E7)
    sizes, counters = read(Packet(whole[:size], wire_bytes=len(whole)))
    assert (sizes, counters.cut_headers, counters.tunnels) == ([], 1, {})
