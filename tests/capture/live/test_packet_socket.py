"""The packet socket alone; its packets are tested in test_capture.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.capture.live.kernel_filter import EVERYTHING, NOTHING
from kanalyze.capture.live.packet_socket import InterfaceState, PacketSocket
from kanalyze.errors import CaptureError
from tests.support.packets import segment

if TYPE_CHECKING:
    from tests.support.netns import Namespace


def test_counts_rise_and_stay_after_the_socket_is_closed(namespace: Namespace) -> None:
    namespace.add_pair()
    with namespace.inside():
        source = PacketSocket("other", None, 100)
        namespace.send([segment()] * 2)  # before it is started
        source.start(promiscuous=False)
        assert source.counts == (0, 0)
        namespace.send([segment()] * 3)
        assert source.counts == (3, 0)
        assert source.counts == (3, 0)
        namespace.send([segment()] * 4)
        source.close()
        source.close()
    assert source.counts == (7, 0)
    assert source.fileno() == -1


def test_a_filter_applies_from_the_start(namespace: Namespace) -> None:
    namespace.add_pair()
    with namespace.inside():
        for filtering, expected in ((EVERYTHING, 5), (NOTHING, 0), (None, 5)):
            source = PacketSocket("other", filtering, 100)
            source.start(promiscuous=True)
            namespace.send([segment()] * 5)
            assert source.counts == (expected, 0)
            source.close()


def test_the_state_follows_the_interface(namespace: Namespace) -> None:
    namespace.add_pair()
    with namespace.inside():
        source, everywhere = PacketSocket("other", None, 100), PacketSocket("any", None, 100)
        for one in (source, everywhere):
            one.start(promiscuous=True)
    assert source.is_promiscuous
    assert not everywhere.is_promiscuous
    assert source.state is InterfaceState.UP
    namespace.ip("link", "set", "other", "down")
    assert source.state is InterfaceState.DOWN
    namespace.ip("link", "set", "other", "name", "renamed", "up")
    assert source.state is InterfaceState.UP
    namespace.ip("link", "del", "one")
    assert source.state is InterfaceState.REMOVED
    assert everywhere.state is InterfaceState.UP
    for one in (source, everywhere):
        one.close()


def test_an_interface_removed_before_the_start_is_an_error(namespace: Namespace) -> None:
    namespace.add_pair()
    with namespace.inside():
        source = PacketSocket("other", None, 100)
        namespace.ip("link", "del", "one")
        with pytest.raises(CaptureError, match=r"^other: no such interface$"):
            source.start(promiscuous=True)
        source.close()
