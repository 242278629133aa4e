"""The network interfaces of this machine, for ``kanalyze live``.

In: what the system reports. Out: :class:`Interface`; the link type of an interface's packets.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterable

ANY: Final = "any"
"""The name for all interfaces at once (Linux)."""

ETHERNET: Final = 1
RAW_IP: Final = 101
COOKED: Final = 276
"""LINKTYPE_LINUX_SLL2: the kernel's metadata of a packet in place of a link-layer header."""

_LINK_TYPES: Final = {
    1: ETHERNET,
    512: COOKED,
    519: RAW_IP,
    768: RAW_IP,
    769: RAW_IP,
    772: ETHERNET,
    776: RAW_IP,
    801: 105,
    802: 119,
    803: 127,
    0xFFFE: RAW_IP,
}
"""LINKTYPE_ values by Linux's hardware type (``ARPHRD_``, linux/if_arp.h), as libpcap maps them.
Other types are captured cooked, because the kernel knows where the network layer begins."""

_UP_FLAG: Final = 0x1
_FLAG_NAMES: Final = ((0x8, "loopback"), (0x10, "point-to-point"), (0x100, "promiscuous"))
_GET_HARDWARE: Final = 0x8927
"""SIOCGIFHWADDR of ioctl."""
_NAME_BYTES: Final = 16


class Interface(NamedTuple):
    """An interface that packets can be captured on."""

    name: str
    addresses: tuple[str, ...]
    """IP addresses as text, IPv4 first."""
    is_up: bool
    link_type: int
    """LINKTYPE_ value of its packets: 1 Ethernet, 101 raw IP, 276 Linux cooked, ..."""
    description: str
    """A few words for people; may be empty."""


def interfaces() -> list[Interface]:
    """Return the interfaces in the order of the system; on Linux, ``any`` is last.

    Raises :class:`CaptureError` if scapy, which lists them, is not installed.
    """
    try:
        import scapy.arch  # noqa: F401  (sets up scapy.interfaces)
        from scapy.config import conf
    except ImportError as error:
        raise CaptureError(
            "listing interfaces needs scapy: pip install 'kanalyze[live]'"
        ) from error
    conf.ifaces.reload()  # interfaces come and go
    listed = [
        Interface(
            name=str(interface.network_name),
            addresses=(*interface.ips[4], *interface.ips[6]),
            is_up=bool(int(interface.flags) & _UP_FLAG),
            link_type=_listed_link_type(str(interface.network_name)),
            description=_described(
                int(interface.flags), (str(interface.description), str(interface.network_name))
            ),
        )
        for interface in conf.ifaces.values()
    ]
    if sys.platform == "linux":
        listed.append(Interface(ANY, (), True, COOKED, "all interfaces"))
    return listed


def hardware_type(name: str) -> int | None:
    """Return Linux's hardware type (``ARPHRD_``) of an interface; None for ``any``.

    Raises :class:`CaptureError` if there is no such interface.
    """
    if name == ANY:
        return None
    kind: int = struct.unpack_from("H", _ioctl(name, _GET_HARDWARE), _NAME_BYTES)[0]
    return kind


def link_type_of(name: str) -> int:
    """Return the LINKTYPE_ value of an interface's packets (Linux).

    Raises :class:`CaptureError` when there is no such interface.
    """
    kind = hardware_type(name)
    return COOKED if kind is None else _LINK_TYPES.get(kind, COOKED)


def _ioctl(name: str, request: int) -> bytes:
    import fcntl  # not on Windows

    encoded = name.encode(errors="replace")
    if not 0 < len(encoded) < _NAME_BYTES or b"\0" in encoded:
        raise CaptureError(f"{name!a}: is not the name of an interface")
    # Any socket works to query interfaces.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
        try:
            return fcntl.ioctl(any_socket, request, encoded.ljust(2 * _NAME_BYTES + 8, b"\0"))
        except OSError as error:
            known = ", ".join([name for _, name in socket.if_nameindex()])
            raise CaptureError(f"{name}: no such interface (there are: {known})") from error


def _listed_link_type(name: str) -> int:
    if sys.platform != "linux":
        return ETHERNET
    try:
        return link_type_of(name)
    except CaptureError:
        return COOKED  # removed since it was listed


def _described(flags: int, texts: tuple[str, str]) -> str:
    description, name = texts
    words: Iterable[str] = [word for flag, word in _FLAG_NAMES if flags & flag]
    return ", ".join([*([] if description == name else [description]), *words])
