"""Every transformation, by a label that describes it.

In: nothing. Out: :data:`TRANSFORMATIONS`, :data:`BEYOND`.

``columns`` and ``anomalies`` of a transformation name all that may differ:

- Where bytes come at other times, the columns of times; the rows are then compared with those of
  the packets in their old order, with the times of the first copy of every byte.
- Where directions may overtake each other, a response may precede its request, and is marked so.
- Where addresses change, they change in the rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from tests.support.disorder import (
    copies,
    cuts,
    formats,
    fragments,
    links,
    numbers,
    order,
    tunnels,
)
from tests.support.disorder.formats import COMPRESSIONS, Pcapng, pcap
from tests.support.disorder.transformation import TIMES, Stage, Transformation

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.support.disorder.packet import Packet
    from tests.support.disorder.transformation import Alter, Write

    AlterOne: TypeAlias = Callable[[Packet, Random], Packet]
    Order: TypeAlias = order.Order

SINGLE_BYTES = "cut to single bytes"
_EARLY = ("response_before_request",)
_ADDRESSES = ("connection", "client_ip", "client_port", "broker_ip", "broker_port")


def _each(alter_one: AlterOne) -> Alter:
    def alter(packets: list[Packet], noise: Random) -> list[Packet]:
        return [alter_one(packet, noise) for packet in packets]

    return alter


def _copies(alter: Alter) -> Transformation:
    return Transformation(Stage.COPIES, alter)


def _cut(alter: Alter) -> Transformation:
    return Transformation(Stage.CUTS, alter)


def _link(alter_one: AlterOne) -> Transformation:
    return Transformation(Stage.LINKS, _each(alter_one))


def _times(
    alter: Alter, same_rows_as: Alter, anomalies: tuple[str, ...] = (), *, alone: bool = False
) -> Transformation:
    return Transformation(
        Stage.TIMES, alter, same_rows_as, columns=TIMES, anomalies=anomalies, alone=alone
    )


def _orders(
    name: str, new_order: Order, anomalies: tuple[str, ...] = _EARLY
) -> dict[str, Transformation]:
    stamped = Transformation(Stage.ORDER, order.each_with_its_time(new_order), anomalies=anomalies)
    rising = _times(
        order.with_a_rising_clock(new_order), order.times_of_new_places(new_order), anomalies
    )
    return {f"{name}, each with its time": stamped, f"{name}, clock rising": rising}


def _format(write: Write) -> Transformation:
    return Transformation(Stage.FORMAT, write=write)


def _of_microseconds(write: Write) -> Transformation:
    moved = formats.in_microseconds
    return Transformation(Stage.FORMAT, same_rows_as=moved, columns=TIMES, write=write)


def _compressed(compress: Callable[[bytes], bytes]) -> Transformation:
    return _format(lambda packets, _: compress(pcap(packets)))


def _files(split: Callable[..., list[list[Packet]]], count: int) -> Transformation:
    return Transformation(Stage.FILES, split=partial(split, count=count))


def _pcap(**options: bool | str | int) -> Callable[[list[Packet], Random], bytes]:
    return lambda packets, _: pcap(packets, **options)  # type: ignore[arg-type]


def _in_fragments(alter_one: AlterOne) -> Transformation:
    """Fragments of the outer packet; all tunnels are in Ethernet."""
    wrap = _each(alter_one)
    return Transformation(
        Stage.LINKS,
        lambda packets, noise: fragments.fragmented_and_shuffled(wrap(packets, noise), noise),
    )


TRANSFORMATIONS: dict[str, Transformation] = {
    "written again": _format(_pcap()),
    # -- copies
    "every packet twice": _copies(copies.twice_at_once),
    "sent again": _copies(copies.sent_again),
    "sent again with other bytes": _copies(copies.other_bytes_again),
    "probed": _copies(copies.probed),
    "acknowledged again": _copies(copies.acknowledged_again),
    "two sent again as one": _copies(copies.two_again_as_one),
    "extended backwards": _copies(copies.extended_backwards),
    "extended forwards": _times(copies.extended_forwards, copies.cut_forwards),
    "extended both ways": _times(copies.extended_both_ways, copies.cut_both_ways),
    # -- order
    **_orders("neighbours swapped", order.neighbours_swapped, ()),
    **_orders("a direction shuffled", order.shuffled_within_a_direction),
    **_orders("blocks shuffled", order.shuffled_in_blocks),
    **_orders("directions interleaved otherwise", order.directions_interleaved_otherwise),
    **_orders("directions and openings interleaved", order.directions_and_openings_interleaved),
    **_orders("directions and ends interleaved", order.directions_and_ends_interleaved),
    # -- cuts
    "cut at random": _cut(cuts.cut_at_random),
    SINGLE_BYTES: _cut(cuts.cut_to_bytes),
    "cut to 536 bytes": _cut(cuts.cut_to_536),
    "joined": _times(cuts.joined, cuts.joined_times),
    "joined hugely": _times(cuts.joined_hugely, cuts.joined_hugely_times, alone=True),
    # -- numbers
    "sequence numbers wrap": Transformation(Stage.NUMBERS, numbers.sequences_wrap),
    "sequence numbers at random": Transformation(Stage.NUMBERS, numbers.sequences_at_random),
    "ports renumbered": Transformation(
        Stage.NUMBERS,
        numbers.ports_renumbered,
        row=numbers.row_with_new_ports,
        columns=_ADDRESSES,
    ),
    "ports exchanged": Transformation(
        Stage.NUMBERS,
        numbers.ports_exchanged,
        row=numbers.row_with_exchanged_ports,
        columns=_ADDRESSES,
    ),
    "other IP version": Transformation(
        Stage.NUMBERS,
        numbers.addresses_of_the_other_version,
        row=numbers.row_with_other_addresses,
        columns=_ADDRESSES,
    ),
    # -- between link layer and TCP
    "VLAN": _link(links.vlan),
    "VLAN in VLAN": _link(links.vlan_in_vlan),
    "three old tags": _link(links.three_old_tags),
    "MPLS": _link(links.mpls),
    "PPPoE": _link(links.pppoe),
    "Linux cooked 1": _link(links.cooked_1),
    "Linux cooked 2": _link(links.cooked_2),
    "null, little-endian": _link(links.null_little),
    "null, big-endian": _link(links.null_big),
    "loop": _link(links.loop),
    "raw IP": _link(links.raw),
    "raw IP by version": _link(links.raw_by_version),
    "PPP": _link(links.ppp),
    "PPP in HDLC framing": _link(links.ppp_framed),
    "in IPv4": _link(tunnels.in_ipv4),
    "in IPv6": _link(tunnels.in_ipv6),
    "in IPv4 in IPv6": _link(lambda p, noise: tunnels.in_ipv6(tunnels.in_ipv4(p, noise), noise)),
    "GRE": _link(tunnels.in_gre),
    "GRE over IPv6": _link(tunnels.in_gre_over_ipv6),
    "GRE with all fields": _link(tunnels.in_gre_with_all_fields),
    "NVGRE": _link(tunnels.in_nvgre),
    "VXLAN": _link(tunnels.in_vxlan),
    "VXLAN over IPv6": _link(tunnels.in_vxlan_over_ipv6),
    "VXLAN of VLAN": _link(lambda p, noise: tunnels.in_vxlan(links.vlan(p, noise), noise)),
    "VXLAN in VXLAN": _link(lambda p, noise: tunnels.in_vxlan(tunnels.in_vxlan(p, noise), noise)),
    "Geneve": _link(tunnels.in_geneve),
    "Geneve without Ethernet": _link(tunnels.in_geneve_without_ethernet),
    "IP options": Transformation(Stage.FRAGMENTS, _each(tunnels.with_ip_options)),
    "on several links": Transformation(Stage.LINKS, formats.on_several_links),
    "padded": Transformation(Stage.PADDING, _each(links.padded)),
    # -- fragments
    "fragments": Transformation(Stage.FRAGMENTS, fragments.fragmented),
    "fragments backwards": Transformation(Stage.FRAGMENTS, fragments.fragmented_backwards),
    "fragments shuffled": Transformation(Stage.FRAGMENTS, fragments.fragmented_and_shuffled),
    "fragments doubled": Transformation(Stage.FRAGMENTS, fragments.fragmented_and_doubled),
    "fragments interleaved": Transformation(Stage.FRAGMENTS, fragments.fragments_interleaved),
    "VXLAN in fragments": _in_fragments(tunnels.in_vxlan),
    "in IPv6 in fragments": _in_fragments(tunnels.in_ipv6),
    # -- formats
    "pcap, big-endian": _format(_pcap(order=">")),
    "pcap of microseconds": _of_microseconds(_pcap(nanoseconds=False)),
    "pcap of microseconds, big-endian": _of_microseconds(_pcap(nanoseconds=False, order=">")),
    "modified pcap": _of_microseconds(_pcap(modified=True)),
    "modified pcap, big-endian": _of_microseconds(_pcap(modified=True, order=">")),
    "pcap without snap length": _format(_pcap(snap_bytes=0)),
    "pcap with the largest snap length": _format(_pcap(snap_bytes=0x7FFFFFFF)),
    "pcapng": _format(Pcapng().write),
    "pcapng, big-endian": _format(Pcapng(order=">").write),
    "pcapng with obsolete blocks": _format(Pcapng(obsolete=True).write),
    "pcapng of several sections": _format(Pcapng(sections=3, chatty=True).write),
    "pcapng of several interfaces": _format(Pcapng(interfaces=formats.fine_interfaces).write),
    "pcapng of everything, big-endian": _format(
        Pcapng(order=">", interfaces=formats.fine_interfaces, sections=4, chatty=True).write
    ),
    **{name: _compressed(compress) for name, compress in COMPRESSIONS.items()},
    # -- files
    "one file in a folder": _files(formats.rotated, 1),
    "two files": _files(formats.rotated, 2),
    "seven files": _files(formats.rotated, 7),
    "fifty files": _files(formats.rotated, 50),
    "two capture points": _files(formats.dealt, 2),
    "five capture points": _files(formats.dealt, 5),
}

BEYOND: dict[str, Transformation] = {
    **_orders("blocks shuffled with openings", order.shuffled_with_their_openings),
    **_orders("blocks shuffled with ends", order.shuffled_with_their_ends),
    **_orders("directions and resets interleaved", order.directions_and_resets_interleaved),
}
"""Disorder that hides where streams begin and end: bytes may be given up, but no row may be
wrong."""
