"""Packets built by scapy: one TCP segment in every encapsulation."""

from __future__ import annotations

import struct
import warnings
from functools import cache
from typing import Any, NamedTuple

with warnings.catch_warnings():
    # Scapy imports ciphers that are not used here and that warn of a later move.
    warnings.simplefilter("ignore")
    from scapy.contrib.erspan import ERSPAN_I, ERSPAN_II, ERSPAN_III, ERSPAN_PlatformSpecific
    from scapy.contrib.etherip import EtherIP
    from scapy.contrib.geneve import GENEVE, GeneveOptions
    from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
    from scapy.contrib.mpls import MPLS, EoMCW
    from scapy.layers.dot11 import Dot11, Dot11QoS, RadioTap
    from scapy.layers.inet import IP, TCP, UDP
    from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop
    from scapy.layers.l2 import (
        GRE,
        GRE_PPTP,
        LLC,
        SNAP,
        CookedLinux,
        CookedLinuxV2,
        Dot1AD,
        Dot1AH,
        Dot1Q,
        Dot3,
        Ether,
    )
    from scapy.layers.ppp import HDLC, PPP, PPPoE
    from scapy.layers.vxlan import VXLAN
    from scapy.packet import Raw

OUTER = ("192.0.2.1", "192.0.2.2")
OUTER_V6 = ("2001:db8:f::1", "2001:db8:f::2")
INNER = ("10.1.0.1", "10.1.0.2")
INNER_V6 = ("2001:db8:a::1", "2001:db8:a::2")
PAYLOAD = b"inside of it all"
# Without these, scapy would look them up in the network.
MACS = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}


class Wrapped(NamedTuple):
    link_type: int
    data: bytes
    is_ipv6: bool
    tunnels: frozenset[str]


def segment(*, is_ipv6: bool = False, payload: bytes = PAYLOAD) -> Any:
    """Return the segment that is inside every packet here."""
    tcp = TCP(sport=40000, dport=9092, seq=1000, ack=2000, flags="PA", window=513)
    if is_ipv6:
        return IPv6(src=INNER_V6[0], dst=INNER_V6[1]) / tcp / Raw(payload)
    return IP(src=INNER[0], dst=INNER[1], id=777) / tcp / Raw(payload)


def outer(**more: Any) -> Any:
    return Ether(**MACS) / IP(src=OUTER[0], dst=OUTER[1], **more)


def outer_v6(**more: Any) -> Any:
    return Ether(**MACS) / IPv6(src=OUTER_V6[0], dst=OUTER_V6[1], **more)


def _log(version: int, packet_bytes: int, order: str) -> bytes:
    """Return the start of a packet in netfilter's log, up to the packet itself."""
    family = 10 if version == 6 else 2
    prefix = struct.pack(f"{order}HH", 4 + 3, 10) + b"in\0\0"
    mark = struct.pack(f"{order}HH", 8, 2) + bytes(4)
    return bytes([family, 0, 0, 1]) + prefix + mark + struct.pack(f"{order}HH", 4 + packet_bytes, 9)


def _wireless(**more: Any) -> Any:
    """Return the start of a data frame of 802.11."""
    addresses = {f"addr{number}": f"02:00:00:00:00:0{number}" for number in range(1, 5)}
    return Dot11(type=2, **addresses, **more)


def _pktap(link_type: int) -> bytes:
    """Return the header that macOS puts before a packet."""
    fields = (108, 1, link_type, b"en0", 0, 2, 14, 0)
    return struct.pack("<III24sIIII", *fields).ljust(108, b"\0")


def _prism(order: str) -> bytes:
    """Return the header of a driver for Prism's chips."""
    return struct.pack(f"{order}II16s", 0x44, 144, b"wlan0").ljust(144, b"\0")


_AVS = struct.pack(">II", 0x80211001, 64).ljust(64, b"\0")


def _ppi(link_type: int, field: bytes = b"") -> bytes:
    """Return a PPI header, with a field that says how a packet was received."""
    fields = struct.pack("<HH", 2, len(field)) + field if field else b""
    return struct.pack("<BBHI", 0, 0, 8 + len(fields), link_type) + fields


def _links(ip: Any) -> dict[str, tuple[int, Any]]:
    """Wrap in link layers; these are no tunnels."""
    version = 6 if isinstance(ip, IPv6) else 4
    ethertype, ppp = (0x86DD, 0x57) if version == 6 else (0x0800, 0x21)
    llc = LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / SNAP(OUI=0, code=ethertype)
    from_station, to_station = _wireless(FCfield=1), _wireless(FCfield=2, subtype=8)
    dbm = RadioTap(present="TSFT+Flags+Rate+dBm_AntSignal", Flags=0, Rate=2)
    padded = RadioTap(present="Flags", Flags=0x20)
    ordered = _wireless(FCfield=0x82, subtype=8) / Dot11QoS() / Raw(bytes(4))
    return {
        "Ethernet": (1, Ether(**MACS) / ip),
        "a tag": (1, Ether(**MACS) / Dot1Q(vlan=5) / ip),
        "two tags": (1, Ether(**MACS) / Dot1AD(vlan=7) / Dot1Q(vlan=5) / ip),
        "LLC and SNAP": (1, Dot3(**MACS) / llc / ip),
        "cooked": (113, CookedLinux(proto=ethertype) / ip),
        "cooked v2": (276, CookedLinuxV2(proto=ethertype) / ip),
        "PPP": (9, PPP(proto=ppp) / ip),
        "PPP with address": (9, HDLC() / PPP(proto=ppp) / ip),
        "PPP in HDLC": (50, HDLC() / PPP(proto=ppp) / ip),
        "Cisco HDLC": (104, Raw(b"\x0f\x00" + ethertype.to_bytes(2)) / ip),
        "802.11": (105, from_station / llc / ip),
        "802.11 with QoS": (105, to_station / Dot11QoS(TID=5) / llc / ip),
        "802.11 between stations": (105, _wireless(FCfield=3, subtype=8) / Dot11QoS() / llc / ip),
        "802.11 with HT control": (105, ordered / llc / ip),
        "radiotap": (127, RadioTap() / from_station / llc / ip),
        "radiotap with fields": (127, dbm / to_station / Dot11QoS() / llc / ip),
        "radiotap with padding": (127, padded / to_station / Dot11QoS() / Raw(bytes(2)) / llc / ip),
        "Prism": (119, Raw(_prism("<")) / from_station / llc / ip),
        "Prism of another machine": (119, Raw(_prism(">")) / from_station / llc / ip),
        "AVS, called Prism": (119, Raw(_AVS) / _wireless(FCfield=2) / llc / ip),
        "AVS": (163, Raw(_AVS) / _wireless(FCfield=2) / llc / ip),
        "PPI": (192, Raw(_ppi(105, bytes(24))) / from_station / llc / ip),
        "Ethernet in PPI": (192, Raw(_ppi(1)) / Ether(**MACS) / ip),
        "PKTAP": (258, Raw(_pktap(1)) / Ether(**MACS) / ip),
        "PKTAP over raw IP": (258, Raw(_pktap(12)) / ip),
        "raw": (101, ip),
        "netfilter's log": (239, Raw(_log(version, len(ip), "<")) / ip),
        "netfilter's log of another machine": (239, Raw(_log(version, len(ip), ">")) / ip),
    }


def _tunnels(ip: Any) -> dict[str, tuple[Any, set[str]]]:
    version = 6 if isinstance(ip, IPv6) else 4
    number, ethertype = (41, 0x86DD) if version == 6 else (4, 0x0800)
    frame = Ether(**MACS) / ip
    ppp = PPP(proto=0x57 if version == 6 else 0x21)
    options = IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt(nh=number)
    full_gre = GRE(proto=ethertype, chksum_present=1, key_present=1, seqnum_present=1, key=7)
    keyed, numbered = (
        outer() / GRE(proto=proto, **{f"{what}_present": 1})
        for proto, what in ((0x6558, "key"), (0x88BE, "seqnum"))
    )
    erspan_3 = outer() / GRE(proto=0x22EB, seqnum_present=1)
    udp = UDP(sport=50001, dport=4789)
    vxlan, geneve, gtp = (
        outer() / udp,
        *(outer() / UDP(sport=5, dport=port) for port in (6081, 2152)),
    )
    gpe = outer() / UDP(sport=50001, dport=4790)
    next_ip = VXLAN(vni=42, flags=0x0C, NextProtocol=2 if version == 6 else 1)
    next_frame = VXLAN(vni=42, flags=0x0C, NextProtocol=3)
    geneve_options = GENEVE(vni=9, proto=ethertype, options=[GeneveOptions(data=b"12345678")])
    extended = GTP_U_Header(gtp_type=255, E=1, next_ex=0x85) / GTPPDUSessionContainer(type=0, QFI=1)
    pptp = {"seqnum_present": 1, "sequence_number": 4, "call_id": 3}
    answered = GRE_PPTP(**pptp, acknum_present=1, ack_number=3)
    two_labels = MPLS(label=16, s=0) / MPLS(label=17, s=1)
    inner = Ether(**MACS) / IP(src="172.16.0.1", dst="172.16.0.2") / GRE(proto=ethertype) / ip
    return {
        "IP in IP": (outer(proto=number) / ip, {"IP in IP"}),
        "IP in IPv6": (outer_v6(nh=number) / ip, {"IP in IP"}),
        "IP in IPv6 with options": (outer_v6() / options / ip, {"IP in IP"}),
        "GRE": (outer() / GRE(proto=ethertype) / ip, {"GRE"}),
        "GRE with all fields": (outer() / full_gre / ip, {"GRE"}),
        "GRE in IPv6": (outer_v6(nh=47) / GRE(proto=ethertype) / ip, {"GRE"}),
        "NVGRE": (outer() / GRE(proto=0x6558, key_present=1, key=0x1234) / frame, {"GRE"}),
        "NVGRE with a tag": (keyed / Ether(**MACS) / Dot1Q() / ip, {"GRE"}),
        "ERSPAN I": (outer() / GRE(proto=0x88BE) / ERSPAN_I() / frame, {"ERSPAN"}),
        "ERSPAN II": (numbered / ERSPAN_II() / frame, {"ERSPAN"}),
        "ERSPAN III": (erspan_3 / ERSPAN_III(o=0) / frame, {"ERSPAN"}),
        "ERSPAN III with more": (
            erspan_3 / ERSPAN_III(o=1) / ERSPAN_PlatformSpecific() / frame,
            {"ERSPAN"},
        ),
        "VXLAN": (vxlan / VXLAN(vni=42, flags=8) / frame, {"VXLAN"}),
        "VXLAN in IPv6": (outer_v6() / udp / VXLAN(vni=42, flags=8) / frame, {"VXLAN"}),
        "VXLAN with a policy": (vxlan / VXLAN(vni=42, flags=0x88, gpid=99) / frame, {"VXLAN"}),
        "VXLAN-GPE": (gpe / next_ip / ip, {"VXLAN"}),
        "VXLAN-GPE with Ethernet": (gpe / next_frame / frame, {"VXLAN"}),
        "Geneve": (geneve / GENEVE(vni=9, proto=0x6558) / frame, {"Geneve"}),
        "Geneve with options": (geneve / geneve_options / ip, {"Geneve"}),
        "MPLS": (Ether(**MACS) / two_labels / ip, {"MPLS"}),
        "Ethernet in MPLS": (Ether(**MACS) / MPLS(label=18, s=1) / EoMCW() / frame, {"MPLS"}),
        "Ethernet in MPLS without a word": (Ether(**MACS) / MPLS(label=19, s=1) / frame, {"MPLS"}),
        "MPLS in GRE": (outer() / GRE(proto=0x8847) / MPLS(label=16, s=1) / ip, {"GRE", "MPLS"}),
        "802.1ah": (Ether(**MACS, type=0x88E7) / Dot1AH(isid=5) / frame, {"802.1ah"}),
        "EtherIP": (outer(proto=97) / EtherIP() / frame, {"EtherIP"}),
        "GTP-U": (gtp / GTP_U_Header(teid=9, gtp_type=255) / ip, {"GTP-U"}),
        "GTP-U with a sequence number": (
            gtp / GTP_U_Header(gtp_type=255, S=1, seq=3) / ip,
            {"GTP-U"},
        ),
        "GTP-U with an extension": (gtp / extended / ip, {"GTP-U"}),
        "PPTP": (outer(proto=47) / GRE_PPTP(**pptp) / ppp / ip, {"GRE"}),
        "PPTP with an acknowledgment": (outer(proto=47) / answered / HDLC() / ppp / ip, {"GRE"}),
        "PPPoE": (Ether(**MACS) / PPPoE(sessionid=3) / ppp / ip, {"PPPoE"}),
        "GRE in VXLAN": (vxlan / VXLAN(vni=1, flags=8) / inner, {"GRE", "VXLAN"}),
    }


@cache
def wrapped() -> dict[str, Wrapped]:
    """Return every encapsulation of both versions of IP, by name."""
    found = {}
    for is_ipv6 in (False, True):
        ip = segment(is_ipv6=is_ipv6)
        version = "IPv6" if is_ipv6 else "IPv4"
        for name, (link_type, packet) in _links(ip).items():
            data = bytes(packet)
            found[f"{version} in {name}"] = Wrapped(link_type, data, is_ipv6, frozenset())
        for name, (packet, tunnels) in _tunnels(ip).items():
            data = bytes(packet)
            found[f"{version} in {name}"] = Wrapped(1, data, is_ipv6, frozenset(tunnels))
    return found
