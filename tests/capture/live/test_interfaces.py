from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

from kanalyze.capture.live import interfaces as module
from kanalyze.capture.live.interfaces import hardware_type, interfaces, link_type_of
from kanalyze.errors import CaptureError

if TYPE_CHECKING:
    from tests.support.netns import Namespace


def test_loopback_is_among_the_interfaces() -> None:
    names = {name for _, name in socket.if_nameindex()}
    found = {one.name: one for one in interfaces()}
    assert names <= found.keys()
    (loopback,) = (one for one in found.values() if "127.0.0.1" in one.addresses)
    assert loopback.is_up
    assert "loopback" in loopback.description


def test_interfaces_are_those_that_ip_lists(namespace: Namespace) -> None:
    namespace.add_pair()
    namespace.ip("addr", "add", "10.9.0.1/24", "dev", "one")
    namespace.ip("addr", "add", "10.9.0.2/24", "dev", "one")
    namespace.ip("link", "set", "other", "down")
    with namespace.inside():
        found = interfaces()
    listed = json.loads(namespace.ip("-json", "addr"))
    assert [one.name for one in found] == [*(one["ifname"] for one in listed), "any"]
    for one, theirs in zip(found, listed, strict=False):
        assert list(one.addresses) == [address["local"] for address in theirs["addr_info"]]
        assert one.is_up == ("UP" in theirs["flags"])
        assert one.link_type == 1
    assert found[-1].link_type == 276
    assert found[-1].is_up


def test_loopback_and_any_have_their_link_types(namespace: Namespace) -> None:
    with namespace.inside():
        assert hardware_type("lo") == 772
        assert link_type_of("lo") == 1
        assert hardware_type("any") is None
        assert link_type_of("any") == 276


@pytest.mark.parametrize(
    ("hardware", "link_type"), [(1, 1), (0xFFFE, 101), (803, 127), (32, 276), (824, 276)]
)
def test_unknown_hardware_is_captured_cooked(
    monkeypatch: pytest.MonkeyPatch, hardware: int, link_type: int
) -> None:
    monkeypatch.setattr(module, "hardware_type", lambda name: hardware)
    assert link_type_of("x") == link_type


@pytest.mark.parametrize("function", [hardware_type, link_type_of])
def test_an_unknown_interface_is_an_error(function: object) -> None:
    assert callable(function)
    with pytest.raises(CaptureError, match=r"^nix: no such interface \(there are: .+\)$"):
        function("nix")
    for name in ("", "a name that is too long", "a\0b"):
        with pytest.raises(CaptureError, match=r"is not the name of an interface$"):
            function(name)
