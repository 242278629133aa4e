"""Captures that are made to take long or much memory: a few bytes of each kind, again and again.

In: how many bytes. Out: a capture of that size, the same each time. Each kind is one way in which
work could grow faster than bytes: headers that are read slowly, packets without bytes, states that
a packet opens, sizes that are claimed, bytes that are searched again, names that all differ.
"""

from __future__ import annotations

import random
import struct
import sys
from itertools import chain, count, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support import kafka as k
from tests.support.packets import (
    ACK,
    SYN,
    Blocks,
    Packet,
    ethernet,
    ipv4,
    ipv6,
    segment,
    tcp,
    variant_pcap_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Packets = Iterator[bytes]

__all__ = ["KINDS", "make"]

_START_NS: Final = 1_700_000_000_000_000_000
_STEP_NS: Final = 10_000
_RECORD_BYTES: Final = 16
_SNAP: Final = b"\xaa\xaa\x03\0\0\0\x08\0"
_RADIOTAP: Final = b"\0\0\x08\0\0\0\0\0"
_ADDRESSES: Final = bytes(18)
_JUNK: Final = random.Random(1).randbytes(1 << 16)


def _client(number: int) -> tuple[str, int]:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", 1024 + number % 60_000


def _frame(control: bytes = b"\x88\x01", qos: bytes = b"\0\0", body: bytes = b"") -> bytes:
    return control + bytes(2) + _ADDRESSES + bytes(2) + qos + body


def _small() -> bytes:
    return ipv4(tcp(payload=b"x"))


# -- link layers ----------------------------------------------------------------------------------


def _radiotap_data() -> Packets:
    return cycle([_RADIOTAP + _frame(body=_SNAP + _small())])


def _radiotap_beacons() -> Packets:
    return cycle([_RADIOTAP + b"\x80\0" + bytes(22) + _JUNK[:40]])


def _radiotap_acknowledgments() -> Packets:
    return cycle([_RADIOTAP + b"\xd4\0" + bytes(8)])


def _radiotap_encrypted() -> Packets:
    return cycle([_RADIOTAP + b"\x88\x41" + bytes(22) + _JUNK[:20]])


def _radiotap_of_many_words() -> Packets:
    words = struct.pack("<I", 0xFFFFFFFF) * 60 + struct.pack("<I", 0x7FFFFFFF)
    head = b"\0\0" + struct.pack("<H", 4 + len(words) + 400) + words + bytes(400)
    return cycle([head + _frame(body=_SNAP + _small())])


def _radiotap_junk() -> Packets:
    return (_JUNK[at % 60_000 :][: 8 + at % 60] for at in count(0, 7))


def _radiotap_headers_of_junk() -> Packets:
    return (b"\0\0\x20\0" + _JUNK[at % 60_000 :][:60] for at in count(0, 7))


def _aggregates() -> Packets:
    inner = bytes(12) + struct.pack(">H", 8 + len(_small())) + _SNAP + _small()
    frames = (inner + bytes(-len(inner) % 4)) * 20
    return cycle([_RADIOTAP + _frame(qos=b"\x80\0", body=frames)])


def _empty_aggregates() -> Packets:
    return cycle([_RADIOTAP + _frame(qos=b"\x80\0", body=bytes(14 * 100))])


def _dot11() -> Packets:
    return cycle([_frame(body=_SNAP + _small())])


def _prism() -> Packets:
    return cycle([struct.pack(">II", 0x44, 144) + bytes(136) + _frame(body=_SNAP + _small())])


def _avs() -> Packets:
    return cycle([struct.pack(">II", 0x80211001, 64) + bytes(56) + _frame(body=_SNAP + _small())])


def _ppi() -> Packets:
    head = struct.pack("<BBHI", 0, 0, 8, 105)
    return cycle([head + _frame(body=_SNAP + _small())])


def _unknown_link() -> Packets:
    return cycle([b"x"])


def _pktap() -> Packets:
    head = struct.pack("<III", 12, 1, 1)
    return cycle([head + ethernet(_small())])


def _nflog() -> Packets:
    return cycle([b"\x02\0\0\0" + struct.pack("<HH", 4, 1) * 31 + b"\x04\0\x09\0" + _small()])


def _tags() -> Packets:
    return cycle([ethernet(_small(), 0x0800, (0x8100,) * 8), ethernet(b"", 0x8100, (0x8100,) * 9)])


def _cut() -> Packets:
    whole = ethernet(_small())
    return cycle([whole[:size] for size in range(len(whole))])


def _odd_ethertypes() -> Packets:
    return (ethernet(b"x", number % 65_536) for number in count(0x600))


def _labels() -> Packets:
    return cycle([ethernet(b"\0\1\0\x40" * 22 + b"\0\1\1\x40" + _small(), 0x8847)])


# -- tunnels --------------------------------------------------------------------------------------


def _in_udp(port: int, data: bytes) -> bytes:
    return ipv4(struct.pack(">HHHH", 5, port, 8 + len(data), 0) + data, protocol=17)


def _gtp(inner: bytes, more: bytes = b"") -> bytes:
    flags = 0x34 if more else 0x30
    size = len(more) + len(inner)
    return _in_udp(2152, struct.pack(">BBHI", flags, 255, size, 9) + more + inner)


def _gtp_once() -> Packets:
    return cycle([ethernet(_gtp(_small()))])


def _gtp_nested() -> Packets:
    data = _small()
    for _ in range(9):
        data = _gtp(data)
    return cycle([ethernet(data)])


def _gtp_extensions() -> Packets:
    return cycle([ethernet(_gtp(_small(), b"\0\0\0\x85" + b"\1\0\0\x85" * 7 + b"\1\0\0\0"))])


def _gtp_junk() -> Packets:
    return cycle([ethernet(_in_udp(2152, b"\x34\xff" + _JUNK[at : at + 20])) for at in range(999)])


def _pptp() -> Packets:
    head = struct.pack(">HHHHI", 0x3001, 0x880B, 2 + len(_small()), 3, 4)
    return cycle([ethernet(ipv4(head + b"\0\x21" + _small(), protocol=47))])


def _etherip() -> Packets:
    return cycle([ethernet(ipv4(b"\x30\0" + ethernet(_small()), protocol=97))])


def _backbone() -> Packets:
    return cycle([ethernet(bytes(4) + ethernet(_small()), 0x88E7)])


def _backbone_nested() -> Packets:
    data = ethernet(_small())
    for _ in range(11):
        data = ethernet(bytes(4) + data, 0x88E7)
    return cycle([data])


def _vxlan_nested() -> Packets:
    data = ethernet(_small())
    for _ in range(7):
        data = ethernet(_in_udp(4789, b"\x08" + bytes(7) + data))
    return cycle([data])


def _ip_in_ip() -> Packets:
    data = _small()
    for _ in range(22):
        data = ipv4(data, protocol=4)
    return cycle([ethernet(data)])


def _extension_headers() -> Packets:
    chain_ = b"\x3c\0" + bytes(6)
    return cycle(
        [ethernet(ipv6(chain_ * 15 + b"\x06\0" + bytes(6) + tcp(), next_header=60), 0x86DD)]
    )


# -- fragments ------------------------------------------------------------------------------------


def _with_id(data: bytes, number: int) -> bytes:
    return data[:4] + struct.pack(">H", number & 0xFFFF) + data[6:]


def _lone_fragments() -> Packets:
    for number in count():
        source = f"10.1.{number >> 24 & 255}.{number >> 16 & 255}"
        yield ethernet(_with_id(ipv4(bytes(8), source, fragment=0x2000), number))


def _tiny_fragments() -> Packets:
    for number in count():
        for at in range(100):
            more = 0 if at == 99 else 0x2000
            yield ethernet(_with_id(ipv4(tcp()[:8], fragment=more | at), number))


def _tiny_fragments_backwards() -> Packets:
    for number in count():
        for at in range(1_300, -1, -2):
            yield ethernet(_with_id(ipv4(bytes(8), fragment=0x2000 | at), number))


def _overlapping_fragments() -> Packets:
    data = bytes(240)
    for number in count():
        for at in range(1_300):
            yield ethernet(_with_id(ipv4(data, fragment=0x2000 | at), number))


# -- packets without bytes, and TCP ---------------------------------------------------------------


def _empty() -> Packets:
    return cycle([b""])


def _syns() -> Packets:
    return (segment(client=_client(number), flags=SYN) for number in count())


def _acks_of_one() -> Packets:
    return cycle([segment(flags=ACK, seq=1)])


def _acks_of_many() -> Packets:
    return (segment(client=_client(number), seq=1) for number in count())


def _bytes_of_one() -> Packets:
    return (segment(seq=number, payload=b"\0") for number in count())


def _bytes_of_many() -> Packets:
    return (segment(client=_client(number), seq=1, payload=b"\0") for number in count())


def _reused_ports() -> Packets:
    for number in count():
        yield segment(flags=SYN, seq=number * 100_000)
        yield segment(flags=5, seq=number * 100_000 + 1)


def _every_other_byte() -> Packets:
    yield segment(flags=SYN, seq=0)
    for number in count(1):
        yield segment(seq=2 * number, payload=b"\0")


def _backwards() -> Packets:
    yield segment(flags=SYN, seq=0)
    while True:
        for number in range(60_000, 1, -1):
            yield segment(seq=number, payload=b"\0")


def _overlaps() -> Packets:
    yield segment(flags=SYN, seq=0)
    for number in count(1):
        yield segment(seq=number, payload=bytes(1400) if number % 2 else b"\1" * 1400)


def _random_places() -> Packets:
    chosen = random.Random(2)
    while True:
        yield segment(seq=chosen.randrange(1 << 20), payload=b"\0" * chosen.randrange(1, 60))


# -- bytes like Kafka -----------------------------------------------------------------------------


def _stream(client: tuple[str, int], pieces: Iterable[bytes], *, to_broker: bool = True) -> Packets:
    at = 1
    for piece in pieces:
        for first in range(0, len(piece), 1400):
            part = piece[first : first + 1400]
            yield segment(client=client, seq=at, payload=part, to_broker=to_broker)
            at += len(part)


def _claims() -> Packets:
    head = struct.pack(">ihhi", 100 << 20, 0, 3, 1) + k.string("x") + k.string(None)
    body = struct.pack(">hii", 1, 1000, 1) + k.string("t") + struct.pack(">ii", 1, 0)
    claim = head + body + struct.pack(">i", 99 << 20)
    for number in count():
        yield segment(client=_client(number), seq=0, flags=SYN)
        yield segment(client=_client(number), seq=1, payload=claim)


def _claims_after_a_request() -> Packets:
    first = k.request(k.API_VERSIONS, 0, 1)
    for number in count():
        client = _client(number)
        yield segment(client=client, seq=0, flags=SYN)
        yield segment(client=client, seq=1, payload=first)
        yield segment(
            client=client,
            seq=1 + len(first),
            payload=struct.pack(">ihhi", 100 << 20, 1, 4, 2) + bytes(200),
        )


def _counts() -> Packets:
    """Arrays that claim many elements."""
    body = struct.pack(">i", 0x7FFF_FFFF) + bytes(200)
    for number in count():
        yield from _stream(_client(number), [k.request(k.METADATA, 1, 1, body)])


def _software_names() -> Packets:
    for number in count():
        name = f"{number:08d}" + "n" * 100
        yield from _stream(_client(number), [k.api_versions(1, name=name, number=name)])


def _names_of_one() -> Packets:
    return _stream(
        ("10.0.0.1", 5), (k.api_versions(n, name=f"{n:08d}" + "n" * 100) for n in count())
    )


def _client_ids() -> Packets:
    return _stream(
        ("10.0.0.1", 5), (k.heartbeat(n, client_id=f"{n:08d}" + "n" * 100) for n in count())
    )


def _topics() -> Packets:
    def requests() -> Iterator[bytes]:
        for number in count():
            names = b"".join(k.string(f"{number:06d}-{topic}") for topic in range(1000))
            yield k.request(k.METADATA, 1, number, struct.pack(">i", 1000) + names)

    return _stream(("10.0.0.1", 5), requests())


def _groups() -> Packets:
    return _stream(("10.0.0.1", 5), (k.heartbeat(n, group=f"{n:08d}" + "g" * 30) for n in count()))


def _requests_of_one_id() -> Packets:
    return _stream(("10.0.0.1", 5), (k.heartbeat(7) for _ in count()))


def _answers_backwards() -> Packets:
    client = ("10.0.0.1", 5)
    asked, answered = 1, 1
    for first in count(0, 2000):
        for number in range(first, first + 2000):
            frame = k.heartbeat(number)
            yield segment(client=client, seq=asked, ack=answered, payload=frame)
            asked += len(frame)
        for number in range(first + 1999, first - 1, -1):
            frame = k.heartbeat_answer(number)
            yield segment(client=client, seq=answered, ack=asked, payload=frame, to_broker=False)
            answered += len(frame)


def _sizes_alone() -> Packets:
    return _stream(("10.0.0.1", 5), cycle([struct.pack(">i", 4) + bytes(4)]))


def _like_kafka_now_and_then() -> Packets:
    """Junk with the heads of requests in it."""
    chosen = random.Random(3)

    def pieces() -> Iterator[bytes]:
        while True:
            yield k.heartbeat(chosen.randrange(1 << 31))[: chosen.randrange(10, 40)]
            yield chosen.randbytes(chosen.randrange(1, 80))

    return _stream(("10.0.0.1", 5), pieces())


def _requests_then_junk() -> Packets:
    """Good requests, and junk after every fourth."""
    chosen = random.Random(4)

    def pieces() -> Iterator[bytes]:
        for number in count():
            yield k.heartbeat(number)
            if number % 4 == 0:
                yield chosen.randbytes(chosen.randrange(1, 80))

    return _stream(("10.0.0.1", 5), pieces())


def _losses() -> Packets:
    """A segment of 1 in 3 is missing."""
    packets = _stream(("10.0.0.1", 5), (k.heartbeat(number) * 3 for number in count()))
    return (packet for number, packet in enumerate(packets) if number % 3)


def _heads_at_every_byte() -> Packets:
    """Bytes that could be the head of a request at every fourth byte."""
    return _stream(("10.0.0.1", 5), cycle([b"\0\0\0\x0c\0\x03\0\0" * 40]))


def _near_request(size: int) -> bytes:
    """The head of a Metadata request of version 1, with so many topics that it nearly fits.

    Its repetition is a topic of the one before: each name ends where the next length begins.
    """
    return struct.pack(">ihhihih", size, 3, 1, 0, -1, size // 20, 18)


def _nearly_requests() -> Packets:
    """A request seems to begin every 20 bytes, and fits until its last byte."""
    client = ("10.0.0.1", 5)
    yield segment(client=client, flags=SYN)
    frames = cycle([_near_request(70_000) * 70])
    yield from _stream(client, chain([k.heartbeat(1), b"\xff\xff\xff\xff"], frames))


def _nearly_requests_at_first() -> Packets:
    return _stream(("10.0.0.1", 5), cycle([_near_request(30_000) * 70]))


def _nearly_requests_of_many() -> Packets:
    piece = _near_request(16_000) * 1_000
    return chain.from_iterable(_stream(_client(number), [b"x", piece]) for number in count())


def _nearly_answers() -> Packets:
    """Requests of every version and one id wait, and an answer seems to begin every 18 bytes."""
    client = ("10.0.0.1", 5)
    asked = b"".join(
        [k.heartbeat(0), *(k.request(3, version, 0, b"\0" * 9) for version in range(9))]
    )
    yield from _stream(client, [asked])
    answer = struct.pack(">iiiBBBBBB", 70_000, 0, 0, 0, 0, 0, 0, 0, 0)
    yield from _stream(client, chain([b"xyz"], cycle([answer * 70])), to_broker=False)


def _zeros() -> Packets:
    return _stream(("10.0.0.1", 5), cycle([bytes(1400)]))


def _zeros_of_many() -> Packets:
    return chain.from_iterable(_stream(_client(number), [bytes(1400) * 4]) for number in count())


def _like_kafka_of_many() -> Packets:
    chosen = random.Random(5)
    for number in count():
        pieces = [
            k.heartbeat(number) + chosen.randbytes(chosen.randrange(1, 400)) for _ in range(4)
        ]
        yield from _stream(_client(number), pieces)


def _like_answers() -> Packets:
    """Both ends say what could be an answer."""
    chosen = random.Random(6)

    def pieces() -> Iterator[bytes]:
        while True:
            size = chosen.randrange(8, 60)
            yield struct.pack(">ii", size, chosen.randrange(1000)) + bytes(size - 4)
            yield chosen.randbytes(chosen.randrange(1, 20))

    one = _stream(("10.0.0.1", 5), pieces())
    other = _stream(("10.0.0.1", 5), pieces(), to_broker=False)
    return chain.from_iterable(zip(one, other, strict=False))


# -- TLS ------------------------------------------------------------------------------------------


def _hellos() -> Packets:
    hello = b"\x03\x03" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + b"\0\0"
    handshake = b"\1" + struct.pack(">I", len(hello))[1:] + hello
    record = b"\x16\3\1" + struct.pack(">H", len(handshake)) + handshake
    return chain.from_iterable(_stream(_client(number), [record]) for number in count())


def _tiny_handshake_records() -> Packets:
    pieces = chain([b"\x16\3\1\0\4\1\xff\xff\xff"], cycle([b"\x16\3\1\0\1x" * 200]))
    return _stream(("10.0.0.1", 5), pieces)


def _empty_tls_records() -> Packets:
    return _stream(("10.0.0.1", 5), cycle([b"\x17\3\3\0\0" * 250]))


def _handshake_claims() -> Packets:
    record = b"\x16\3\1\x40\0\1\xff\xff\xff" + bytes(100)
    return chain.from_iterable(_stream(_client(number), [record]) for number in count())


def _handshake_junk() -> Packets:
    record = b"\x16\3\1\2\0\1\0\1\xfc\3\3" + _JUNK[:506]
    return _stream(("10.0.0.1", 5), cycle([record]))


# -- files ----------------------------------------------------------------------------------------


def _pcapng(blocks: Callable[[Blocks], Iterator[bytes]]) -> Callable[[int], bytes]:
    def make_file(size: int) -> bytes:
        b = Blocks()
        data = bytearray(b.section() + b.interface(1))
        for block in blocks(b):
            if len(data) >= size:
                break
            data += block
        return bytes(data)

    return make_file


def _pcap(packets: Callable[[], Packets], link_type: int) -> Callable[[int], bytes]:
    def make_file(size: int) -> bytes:
        def bounded() -> Iterator[Packet]:
            total = 0
            for number, data in enumerate(packets()):
                total += _RECORD_BYTES + len(data)
                if total > size:
                    return
                yield Packet(data, _START_NS + number * _STEP_NS)

        return variant_pcap_file(bounded(), 0xA1B2C3D4, link_type=link_type)

    return make_file


_ETHERNET: Final[dict[str, Callable[[], Packets]]] = {
    "VLAN tags": _tags,
    "packets that are cut": _cut,
    "all ethertypes": _odd_ethertypes,
    "MPLS labels": _labels,
    "GTP-U": _gtp_once,
    "GTP-U nested": _gtp_nested,
    "GTP-U with extensions": _gtp_extensions,
    "GTP-U junk": _gtp_junk,
    "PPTP": _pptp,
    "EtherIP": _etherip,
    "802.1ah": _backbone,
    "802.1ah nested": _backbone_nested,
    "VXLAN nested": _vxlan_nested,
    "IP in IP nested": _ip_in_ip,
    "IPv6 extension headers": _extension_headers,
    "lone fragments": _lone_fragments,
    "tiny fragments": _tiny_fragments,
    "tiny fragments backwards": _tiny_fragments_backwards,
    "overlapping fragments": _overlapping_fragments,
    "packets without bytes": _empty,
    "SYNs": _syns,
    "acknowledgments of one connection": _acks_of_one,
    "acknowledgments of many connections": _acks_of_many,
    "a byte a packet": _bytes_of_one,
    "a byte a connection": _bytes_of_many,
    "ports used again": _reused_ports,
    "every other byte is missing": _every_other_byte,
    "bytes backwards": _backwards,
    "segments that overlap": _overlaps,
    "segments at random places": _random_places,
    "frames that claim 100 MiB": _claims,
    "frames that claim 100 MiB, later": _claims_after_a_request,
    "arrays that claim 2^31 elements": _counts,
    "software names": _software_names,
    "software names of one connection": _names_of_one,
    "client ids": _client_ids,
    "topics": _topics,
    "groups": _groups,
    "requests of one correlation id": _requests_of_one_id,
    "answers backwards": _answers_backwards,
    "frames of 4 bytes": _sizes_alone,
    "like Kafka now and then": _like_kafka_now_and_then,
    "requests, then junk": _requests_then_junk,
    "lost segments": _losses,
    "heads of requests everywhere": _heads_at_every_byte,
    "nearly requests": _nearly_requests,
    "nearly requests, at first": _nearly_requests_at_first,
    "nearly requests, many connections": _nearly_requests_of_many,
    "nearly answers": _nearly_answers,
    "zeros": _zeros,
    "zeros of many connections": _zeros_of_many,
    "like Kafka, many connections": _like_kafka_of_many,
    "like answers": _like_answers,
    "TLS hellos": _hellos,
    "TLS handshake in bytes": _tiny_handshake_records,
    "TLS records without bytes": _empty_tls_records,
    "TLS handshakes that claim 16 MiB": _handshake_claims,
    "TLS handshake junk": _handshake_junk,
}
_OTHER_LINKS: Final[dict[str, tuple[int, Callable[[], Packets]]]] = {
    "radiotap": (127, _radiotap_data),
    "radiotap beacons": (127, _radiotap_beacons),
    "radiotap acknowledgments": (127, _radiotap_acknowledgments),
    "radiotap encrypted": (127, _radiotap_encrypted),
    "radiotap of many words": (127, _radiotap_of_many_words),
    "radiotap junk": (127, _radiotap_junk),
    "radiotap headers of junk": (127, _radiotap_headers_of_junk),
    "radiotap aggregates": (127, _aggregates),
    "radiotap empty aggregates": (127, _empty_aggregates),
    "802.11": (105, _dot11),
    "Prism": (119, _prism),
    "AVS": (163, _avs),
    "PPI": (192, _ppi),
    "unknown link type": (147, _unknown_link),
    "PKTAP": (258, _pktap),
    "netfilter's log": (239, _nflog),
    "raw IP, nothing in it": (101, lambda: cycle([b"\x45"])),
}
KINDS: Final[dict[str, Callable[[int], bytes]]] = {
    **{name: _pcap(packets, link) for name, (link, packets) in _OTHER_LINKS.items()},
    **{name: _pcap(packets, 1) for name, packets in _ETHERNET.items()},
    "pcapng, packets without bytes": _pcapng(lambda b: cycle([b.enhanced(Packet(b""), 1)])),
    "pcapng, simple packets": _pcapng(lambda b: cycle([b.simple(Packet(b""))])),
    "pcapng, obsolete packets": _pcapng(lambda b: cycle([b.obsolete(Packet(b""), 1)])),
    "pcapng, interfaces": _pcapng(lambda b: cycle([b.interface(1)])),
    "pcapng, sections": _pcapng(lambda b: cycle([b.section(), b.interface(1)])),
    "pcapng, unknown blocks": _pcapng(lambda b: cycle([b.block(0xBAD, b"")])),
    "pcapng, statistics": _pcapng(lambda b: cycle([b.statistics(0, b"")])),
    "pcapng, names": _pcapng(
        lambda b: (b.block(4, b.option(1, struct.pack(">I", n) + b"a\0")) for n in count())
    ),
    "pcapng, packets of no interface": _pcapng(
        lambda b: cycle([b.enhanced(Packet(b""), 1, interface=9)])
    ),
}
"""Maker of a capture of about so many bytes, by the name of its kind."""


def make(name: str, size: int) -> bytes:
    """Return a capture of this kind, of about ``size`` bytes."""
    return KINDS[name](size)


if __name__ == "__main__":
    Path(sys.argv[3]).write_bytes(make(sys.argv[1], int(sys.argv[2])))
