"""Live captures on interfaces of our own, compared with tcpdump on the same interfaces.

Without root, ip or tcpdump these tests are not selected (see tests/conftest.py, which says so).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kanalyze.capture.live import capture as capturing
from kanalyze.capture.live import packet_socket
from kanalyze.capture.live.capture import LiveCapture
from kanalyze.capture.live.kernel_filter import port_filter
from kanalyze.capture.live.packet_socket import InterfaceState
from kanalyze.errors import CaptureError, UsageError
from tests.support.captures import in_turn
from tests.support.netns import Namespace, run
from tests.support.packets import ethernet, ipv4, ipv6, segment, tcp
from tests.support.tcpdump import Seen, Tcpdump
from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kanalyze.model.packets import PacketBatch

TIME_WAIT = "06"
IPV6_CLIENT, IPV6_BROKER = ("fd00::1", 50000), ("fd00::2", 9092)


class Read(NamedTuple):
    number: int
    time_ns: int
    wire_bytes: int
    link_type: int
    data: bytes


@pytest.fixture(params=["ring", "messages"])
def feed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to get packets; to test messages, the version of the ring is made unknown."""
    if request.param == "messages":
        monkeypatch.setattr(packet_socket, "_VERSION_3", 99)
    return request.param


@pytest.fixture
def pair(namespace: Namespace) -> Namespace:
    """A namespace with the interfaces `one` and `other`; each receives what the other sends."""
    namespace.add_pair()
    return namespace


def listen(namespace: Namespace, interface: str = "other", **options: object) -> LiveCapture:
    with namespace.inside():
        return LiveCapture(interface, **{"gather_s": 0.1, **options})


def read_all(capture: LiveCapture) -> list[Read]:
    """All packets that have arrived, however long the kernel takes to deliver them.

    Packets that were sent have arrived (see :meth:`Namespace.send`), and the kernel has counted
    them.
    """
    packets: list[Read] = []

    def is_read() -> bool:
        if (batch := capture.read(0.01)) is not None:
            packets.extend(packets_in(batch))
        return capture.packets + capture.dropped_packets >= capture.received_packets

    wait_until(is_read, "packets that the kernel counted")
    return packets


def packets_in(batch: PacketBatch) -> Iterator[Read]:
    columns = (
        *(batch.number, batch.time_ns, batch.wire_bytes, batch.link_type),
        *(batch.offset, batch.captured_bytes),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for number, time_ns, wire_bytes, link_type, offset, size in rows:
        data = bytes(batch.buffer[offset : offset + size])
        yield Read(number, time_ns, wire_bytes, link_type, data)


def udp(payload: bytes, source_port: int = 5000, destination_port: int = 53) -> bytes:
    header = struct.pack(">HHHH", source_port, destination_port, 8 + len(payload), 0)
    return ipv4(header + payload, protocol=17)


def inner(number: int) -> bytes:
    return ipv4(tcp(50000, 9092, number, payload=b"%04d" % number * 5))


def tagged(payload: bytes, *tags: tuple[int, int], ethertype: int = 0x0800) -> bytes:
    """An Ethernet packet with VLAN tags: protocol and control of each."""
    header = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02"
    header += b"".join(struct.pack(">HH", *tag) for tag in tags)
    return header + struct.pack(">H", ethertype) + payload


def traffic() -> list[bytes]:
    """One packet of each kind that filters distinguish."""
    return [
        *(segment(seq=number, payload=bytes(number)) for number in range(0, 1400, 97)),
        segment(to_broker=False, payload=b"answer"),
        segment(client=IPV6_CLIENT, broker=IPV6_BROKER, payload=b"six"),
        segment(client=("10.0.0.7", 1234), broker=("10.0.0.8", 22)),
        ethernet(udp(b"no tcp")),
        ethernet(udp(b"no tcp", 9092, 9092)),
        tagged(inner(1), (0x8100, 100)),
        tagged(inner(2), (0x8100, 0)),
        tagged(inner(3), (0x8100, 0x6065)),
        tagged(inner(4), (0x88A8, 7)),
        tagged(inner(5), (0x88A8, 7), (0x8100, 100)),
        tagged(ipv4(tcp(1, 2)), (0x8100, 100)),
        tagged(ipv6(tcp(50000, 9092), "fd00::1", "fd00::2"), (0x8100, 100), ethertype=0x86DD),
        ethernet(b"\0" * 46, 0x0806),
        ethernet(ipv4(tcp(50000, 9092), fragment=0x2000)),
        ethernet(ipv4(b"the rest of it", fragment=0x0005)),
    ]


def test_all_packets_that_are_sent_are_read(pair: Namespace, feed: str) -> None:
    sent = traffic()
    before_ns = time.time_ns()
    with listen(pair) as capture:
        pair.send(sent)
        packets = read_all(capture)
    assert [packet.data for packet in packets] == sent
    assert [packet.number for packet in packets] == list(range(1, len(sent) + 1))
    assert [packet.wire_bytes for packet in packets] == [len(data) for data in sent]
    assert {packet.link_type for packet in packets} == {1}
    times = [packet.time_ns for packet in packets]
    assert times == sorted(times)
    assert before_ns <= times[0] <= times[-1] <= time.time_ns()
    assert (capture.received_packets, capture.dropped_packets) == (len(sent), 0)
    assert capture.packets == len(sent)


def test_packets_and_times_are_those_of_tcpdump(pair: Namespace, feed: str, tmp_path: Path) -> None:
    with listen(pair) as capture, Tcpdump(pair, "other", tmp_path / "x.pcap") as tcpdump:
        pair.send(traffic())
        packets = read_all(capture)
        tcpdump.wait_for(len(packets))
    assert [Seen(packet.time_ns, packet.data) for packet in packets] == tcpdump.packets
    assert len(packets) == len(traffic())


def test_real_connections_are_captured_as_by_tcpdump(
    namespace: Namespace, feed: str, tmp_path: Path
) -> None:
    """The kernel delivers packets larger than the MTU, to tcpdump too."""
    with Namespace() as far:
        namespace.add_pair(far=far)
        namespace.ip("addr", "add", "10.9.0.1/24", "dev", "one")
        far.ip("addr", "add", "10.9.0.2/24", "dev", "other")
        with (
            listen(namespace, "one", snap_bytes=100) as capture,
            Tcpdump(namespace, "one", tmp_path / "x.pcap", "-s", "100") as tcpdump,
        ):
            before_ns = time.time_ns()
            exchange_over_tcp(namespace, far)
            after_ns = time.time_ns()
            packets = read_all(capture)
            tcpdump.wait_for(len(packets))
    # Two threads send at once, and the kernel does not hand what they send to each listener in the
    # same order: packets are matched by what they hold.
    read, seen = times_by_data(packets), times_by_data(tcpdump.packets)
    assert {data: len(times) for data, times in read.items()} == {
        data: len(times) for data, times in seen.items()
    }
    for data, times in read.items():
        # What TCP sends to another namespace of the same machine bears the time at which it was to
        # be sent, so each listener takes a time of its own when it reads the packet. With a network
        # card this does not happen.
        is_incoming = data[30:34] == bytes([10, 9, 0, 1])
        assert times == seen[data] or is_incoming
        assert before_ns <= min(*times, *seen[data])
        assert max(*times, *seen[data]) <= after_ns
    largest = max(packets, key=lambda packet: packet.wire_bytes)
    assert largest.wire_bytes > 1514
    assert all(
        packet.wire_bytes == 14 + int.from_bytes(packet.data[16:18], "big")
        for packet in packets
        if packet.data[12:14] == b"\x08\x00"
    )


def times_by_data(packets: Sequence[Read] | Sequence[Seen]) -> dict[bytes, list[int]]:
    """When each packet was seen, in order of time; those that hold the same bytes together."""
    times: dict[bytes, list[int]] = {}
    for packet in packets:
        times.setdefault(packet.data, []).append(packet.time_ns)
    return {data: sorted(found) for data, found in times.items()}


def exchange_over_tcp(near: Namespace, far: Namespace) -> None:
    """200 kB each way, to the last packet of both ends."""
    with far.inside():
        server = socket.create_server(("10.9.0.2", 9092))
    with near.inside():
        client = socket.create_connection(("10.9.0.2", 9092), timeout=LONG_S)
    with server, client, server.accept()[0] as accepted:
        for sender, receiver in ((client, accepted), (accepted, client)):
            thread = threading.Thread(target=sender.sendall, args=(bytes(200_000),))
            thread.start()
            left = 200_000
            while left:
                left -= len(receiver.recv(left))
            thread.join()
    wait_until(lambda: not unfinished(near) and not unfinished(far), "end of the connection")


def unfinished(namespace: Namespace) -> list[str]:
    """Connections with an end that still sends data."""
    lines = run(*namespace.command("cat", "/proc/net/tcp")).splitlines()[1:]
    return [line for line in lines if line.split()[3] != TIME_WAIT]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("expression", "feed"),
    in_turn(
        [
            "tcp port 9092",
            "ip6",
            "vlan",
            "vlan 100 and tcp",
            "host 10.0.0.7 or arp",
            "greater 600",
            port_filter([9092], []),
            port_filter([22, 9092], ["10.0.0.0/29", "fd00::2"]),
        ],
        ["ring", "messages"],
    ),
    indirect=["feed"],
)
def test_a_filter_selects_the_packets_that_tcpdump_selects(
    pair: Namespace, feed: str, tmp_path: Path, expression: str
) -> None:
    path = tmp_path / "x.pcap"
    with (
        listen(pair, filter_text=expression) as capture,
        Tcpdump(pair, "other", path, expression) as tcpdump,
    ):
        pair.send(traffic())
        packets = read_all(capture)
        tcpdump.wait_for(len(packets))
    assert [packet.data for packet in packets] == [seen.data for seen in tcpdump.packets]
    assert 0 < len(packets) < len(traffic())
    assert "filtered by the kernel" in capture.description


def test_ports_are_found_after_vlan_tags_and_in_first_fragments(pair: Namespace, feed: str) -> None:
    expected = [
        *(data for data in traffic() if b"\x23\x84" in data and b"no tcp" not in data),
        tagged(inner(6), (0x8100, 5), (0x8100, 6)),
    ]
    with listen(pair, filter_text=port_filter([9092], [])) as capture:
        pair.send([*traffic(), expected[-1]])
        assert [packet.data for packet in read_all(capture)] == expected
    assert len(expected) > 10


@pytest.mark.few(1)
def test_no_packet_from_before_the_filter_is_read(pair: Namespace, feed: str) -> None:
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            pair.send([ethernet(udp(b"unwanted"))] * 50)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        for _ in range(5):
            with listen(pair, filter_text="tcp") as capture:
                assert capture.read(0.1) is None
                assert capture.received_packets == 0
    finally:
        stop.set()
        thread.join()


def test_a_wrong_filter_and_an_unknown_interface_are_errors_of_one_line(pair: Namespace) -> None:
    with pytest.raises(UsageError, match=r"^filter 'tcp prt 1': .*syntax error$"):
        listen(pair, filter_text="tcp prt 1")
    with pytest.raises(CaptureError, match=r"^nix: no such interface \(there are: lo, .*one.*\)$"):
        listen(pair, "nix")
    with pytest.raises(UsageError, match=r"^not a snap length: 0 \(1 to 262144\)$"):
        listen(pair, snap_bytes=0)


def test_no_more_than_the_snap_length_is_kept(pair: Namespace, feed: str) -> None:
    sent = traffic()
    with listen(pair, snap_bytes=60) as capture:
        pair.send(sent)
        packets = read_all(capture)
    assert [packet.data for packet in packets] == [data[:60] for data in sent]
    assert [packet.wire_bytes for packet in packets] == [len(data) for data in sent]


def test_packets_that_do_not_fit_the_buffer_are_counted(pair: Namespace, feed: str) -> None:
    sent = 20_000
    with listen(pair, buffer_bytes=1 << 20, snap_bytes=2000) as capture:
        pair.send([segment(payload=bytes(1400))] * sent)
        read = len(read_all(capture))
        assert capture.dropped_packets > 0
        assert capture.received_packets == sent
        assert read + capture.dropped_packets == sent
        # The capture goes on.
        pair.send([segment(payload=b"after")])
        (packet,) = read_all(capture)
        assert packet.number == read + 1
        assert capture.received_packets == sent + 1


def test_a_ring_wraps_around_without_loss(pair: Namespace) -> None:
    """More blocks are filled than the ring has, and are read as they come."""
    read: list[bytes] = []
    with listen(pair, buffer_bytes=2 << 20, snap_bytes=2000, gather_s=0.0) as capture:
        for turn in range(40):
            sent = [segment(seq=turn << 16 | number, payload=bytes(1000)) for number in range(300)]
            pair.send(sent)
            packets = read_all(capture)
            assert [packet.data for packet in packets] == sent
            read += [packet.data for packet in packets]
        assert capture.dropped_packets == 0
    assert len(read) == len(set(read)) == 12_000


class Clock:
    """In place of the module `time`: a clock that stands still while other code runs."""

    def __init__(self) -> None:
        self._stood_s = 0.0
        self._stopped_s: float | None = None

    def monotonic(self) -> float:
        now_s = time.monotonic() if self._stopped_s is None else self._stopped_s
        return now_s - self._stood_s

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        self._stopped_s = time.monotonic()
        yield
        self._stood_s += time.monotonic() - self._stopped_s
        self._stopped_s = None


def test_packets_of_a_later_gathering_interval_are_a_batch_of_their_own(
    pair: Namespace, feed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of one gathering interval are one batch, which is returned without more waiting."""
    clock = Clock()
    monkeypatch.setattr(capturing, "time", clock)
    with listen(pair, gather_s=0.5) as capture:
        pair.send(traffic()[:1])
        began_s = clock.monotonic()
        first = capture.read(LONG_S)
        assert first is not None
        with clock.stopped():
            for packet in traffic()[1:5]:
                pair.send([packet])
        second = capture.read(LONG_S)
        assert second is not None
        assert second.number.tolist() == [2, 3, 4, 5]
        assert 0.5 <= clock.monotonic() - began_s < LONG_S / 2


def test_a_read_without_packets_waits_for_its_timeout(pair: Namespace, feed: str) -> None:
    with listen(pair) as capture:
        began_s = time.monotonic()
        assert capture.read(0.2) is None
        assert time.monotonic() - began_s >= 0.19
        assert capture.read(0.0) is None


@pytest.mark.few(2)
@pytest.mark.parametrize("interface", ["lo", "any"])
def test_loopback_packets_are_read_once(
    namespace: Namespace, feed: str, tmp_path: Path, interface: str
) -> None:
    header_bytes = 14 if interface == "lo" else 20
    with (
        listen(namespace, interface) as capture,
        Tcpdump(namespace, interface, tmp_path / "x.pcap") as tcpdump,
        namespace.inside(),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind(("127.0.0.1", 0))
        payloads = [b"%05d" % number * (number + 1) for number in range(10)] + [bytes(65_000)]
        for payload in payloads:
            sender.sendto(payload, receiver.getsockname())
            assert receiver.recv(len(payload)) == payload  # captures get it before the receiver
        packets = read_all(capture)
        tcpdump.wait_for(len(packets))
    assert [packet.data[header_bytes + 28 :] for packet in packets] == payloads
    assert [Seen(packet.time_ns, packet.data) for packet in packets] == tcpdump.packets
    assert {packet.link_type for packet in packets} == {1 if interface == "lo" else 276}
    assert {packet.wire_bytes - len(packet.data) for packet in packets} == {0}
    assert not capture.is_promiscuous


@pytest.mark.few(2)
@pytest.mark.parametrize("expression", ["udp port 53", "ip6", "tcp and src host 10.0.0.1"])
def test_all_interfaces_are_filtered_as_by_tcpdump(
    pair: Namespace, feed: str, tmp_path: Path, expression: str
) -> None:
    with (
        listen(pair, "any", filter_text=expression) as capture,
        Tcpdump(pair, "any", tmp_path / "x.pcap", expression) as tcpdump,
    ):
        pair.send(traffic())
        packets = read_all(capture)
        tcpdump.wait_for(len(packets))
    assert [Seen(packet.time_ns, packet.data) for packet in packets] == tcpdump.packets
    assert len(packets) >= 2  # one going out, one coming in


def test_packets_of_a_tunnel_have_no_link_layer(
    namespace: Namespace, tunnel: int, feed: str
) -> None:
    with listen(namespace, "tun7", filter_text=port_filter([9092], [], 101)) as capture:
        for packet in (inner(1), udp(b"no tcp"), ipv6(tcp(1, 9092), "fd00::1", "fd00::2")):
            os.write(tunnel, packet)
        wait_until(lambda: namespace.count_arrived("tun7") == 3)
        packets = read_all(capture)
    assert [packet.data for packet in packets] == [
        inner(1),
        ipv6(tcp(1, 9092), "fd00::1", "fd00::2"),
    ]
    assert {packet.link_type for packet in packets} == {101}


@pytest.mark.few(1)
def test_packets_are_read_after_an_interface_was_down(pair: Namespace, feed: str) -> None:
    with listen(pair) as capture:
        pair.send(traffic()[:2])
        assert len(read_all(capture)) == 2
        assert capture.state is InterfaceState.UP
        pair.ip("link", "set", "other", "down")
        assert capture.state is InterfaceState.DOWN
        began_s = time.monotonic()
        assert capture.read(0.3) is None
        assert time.monotonic() - began_s > 0.25
        pair.set_up("other")
        pair.send(traffic()[2:5])
        assert [packet.number for packet in read_all(capture)] == [3, 4, 5]
        assert capture.state is InterfaceState.UP


def test_packets_are_read_when_an_interface_that_was_down_comes_up(
    pair: Namespace, feed: str
) -> None:
    pair.ip("link", "set", "other", "down")
    with listen(pair, filter_text="tcp") as capture:
        assert capture.state is InterfaceState.DOWN
        assert capture.read(0.05) is None
        pair.set_up("other")
        pair.send(traffic()[:3])
        assert len(read_all(capture)) == 3


@pytest.mark.few(1)
def test_an_interface_that_is_removed_can_be_opened_again(pair: Namespace, feed: str) -> None:
    with listen(pair) as capture:
        pair.send(traffic()[:3])
        pair.ip("link", "del", "one")
        assert capture.state is InterfaceState.REMOVED
        assert [packet.number for packet in read_all(capture)] == [1, 2, 3]
        with pair.inside():
            assert not capture.reopen()
        assert capture.read(0.05) is None
        pair.add_pair()
        assert capture.state is InterfaceState.REMOVED
        with pair.inside():
            assert capture.reopen()
        assert capture.state is InterfaceState.UP
        pair.send(traffic()[:2])
        assert [packet.number for packet in read_all(capture)] == [4, 5]
        assert (capture.received_packets, capture.dropped_packets) == (5, 0)


def ring_bytes() -> int:
    """The memory of this process that is shared with packet sockets, in bytes."""
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, name = line.split(maxsplit=5)
        if name.startswith("socket:"):
            first, last = span.split("-")
            total += int(last, 16) - int(first, 16)
    return total


def test_the_ring_of_a_removed_interface_is_freed_at_once(pair: Namespace) -> None:
    before = ring_bytes()
    with listen(pair, buffer_bytes=4 << 20) as capture:
        pair.send(traffic()[:1])
        batch = capture.read(LONG_S)
        assert batch is not None
        assert ring_bytes() - before == 4 << 20
        pair.ip("link", "del", "one")
        pair.add_pair()
        with pair.inside():
            assert capture.reopen()
        # The batch still exists; its memory does not.
        assert ring_bytes() - before == 4 << 20
        with pytest.raises(ValueError, match="released"):
            bytes(batch.buffer[:1])
        assert batch.number.tolist() == [1]
    assert ring_bytes() == before


def test_a_view_of_the_ring_keeps_its_memory(pair: Namespace) -> None:
    before = ring_bytes()
    with listen(pair, buffer_bytes=4 << 20) as capture:
        pair.send(traffic()[:1])
        batch = capture.read(LONG_S)
        assert batch is not None
        view = batch.buffer[:10]
    assert ring_bytes() > before
    assert len(bytes(view)) == 10
    del batch, view, capture
    gc.collect()
    assert ring_bytes() == before


def test_an_interface_removed_while_it_is_reopened_is_not_open(
    pair: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listen(pair) as capture:
        pair.ip("link", "del", "one")
        pair.add_pair()
        opening = capture._open

        def gone_meanwhile() -> object:
            pair.ip("link", "del", "one")
            return opening()

        monkeypatch.setattr(capture, "_open", gone_meanwhile)
        with pair.inside():
            assert not capture.reopen()
        monkeypatch.undo()
        pair.add_pair()
        with pair.inside():
            assert capture.reopen()
        pair.send(traffic()[:2])
        assert len(read_all(capture)) == 2


def test_a_renamed_interface_is_followed(pair: Namespace, feed: str) -> None:
    """Once it is removed, the requested name is looked for again."""
    with listen(pair) as capture:
        pair.ip("link", "set", "other", "down")
        pair.ip("link", "set", "other", "name", "moved")
        assert capture.state is InterfaceState.DOWN
        pair.set_up("moved")
        assert capture.state is InterfaceState.UP
        pair.send(traffic()[:2])
        assert [packet.number for packet in read_all(capture)] == [1, 2]
        pair.ip("link", "del", "moved")
        assert capture.state is InterfaceState.REMOVED
        with pair.inside():
            assert not capture.reopen()
        pair.add_pair()
        with pair.inside():
            assert capture.reopen()
        pair.send(traffic()[:1])
        assert [packet.number for packet in read_all(capture)] == [3]


def test_an_interface_is_promiscuous_while_it_is_captured_on(pair: Namespace, feed: str) -> None:
    def promiscuity() -> int:
        shown = json.loads(pair.ip("-json", "-details", "link", "show", "other"))
        return int(shown[0]["promiscuity"])

    with listen(pair) as capture:
        assert capture.is_promiscuous
        assert "promiscuous" in capture.description
        pair.send(traffic())
        batch = capture.read(LONG_S)
        assert promiscuity() == 1
    # The batch still exists, and with it the memory.
    assert batch is not None
    assert promiscuity() == 0
    assert (capture.received_packets, capture.read(0.0)) == (len(traffic()), None)
    del batch
    gc.collect()
    with listen(pair, promiscuous=False) as capture:
        assert not capture.is_promiscuous
        assert promiscuity() == 0


def test_the_description_names_the_way_packets_come(pair: Namespace, feed: str) -> None:
    with listen(pair, promiscuous=False, buffer_bytes=8 << 20) as capture:
        description = capture.description
    if feed == "ring":
        assert description == "other: a ring of 8 MiB shared with the kernel"
    else:
        assert description.startswith("other: in messages, as the kernel shares no ring, out of")


def test_capturing_loads_no_scapy(namespace: Namespace) -> None:
    program = """
import sys
from kanalyze.capture.live.capture import LiveCapture
with LiveCapture("lo"), LiveCapture("lo", filter_text="tcp"):
    print([name for name in sys.modules if name.startswith("scapy")])
"""
    assert run(*namespace.command(sys.executable, "-c", program)).splitlines() == ["[]"]


OPEN_AND_READ = """
import sys
from kanalyze.capture.live.capture import LiveCapture
from kanalyze.errors import KanalyzeError
try:
    with LiveCapture("lo", filter_text="udp") as capture:
        print(capture.read(0.01), capture.dropped_packets)
except KanalyzeError as error:
    print(error)
"""


@pytest.mark.few(2)
@pytest.mark.parametrize("granted", [False, True])
def test_an_ordinary_user_needs_only_the_right_to_capture(
    namespace: Namespace, ordinary_user: Callable[..., list[str]], feed: str, granted: bool
) -> None:
    """That right is CAP_NET_RAW."""
    program = OPEN_AND_READ
    if feed == "messages":
        program = f"import kanalyze.capture.live.packet_socket as r\nr._VERSION_3 = 99\n{program}"
    words = ordinary_user("net_raw") if granted else ordinary_user()
    output = run(*namespace.command(*words, sys.executable, "-c", program)).strip()
    if granted:
        assert output == "None 0"
    else:
        assert output.startswith(
            "lo: no right to capture: run as root, or let tcpdump do it"
            " (sudo tcpdump -i lo -U -s 0 -w - | kanalyze live -)"
        )
        assert "\n" not in output
