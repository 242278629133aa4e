"""Where packets of a live run come from, and which of them it takes.

In: a live capture, a clock; an expression in tcpdump's language. Out: packets; the indices of those
that are selected.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.capture.live.interfaces import COOKED, ETHERNET, RAW_IP
from kanalyze.capture.live.kernel_filter import (
    NOTHING,
    PacketHeader,
    compile_expression,
    load_libpcap,
    program_of,
)
from kanalyze.capture.live.packet_socket import InterfaceState
from kanalyze.errors import UsageError
from kanalyze.model.packet_arrays import PacketArrays, to_column

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Sequence

    from kanalyze.capture.live.capture import LiveCapture
    from kanalyze.capture.live.kernel_filter import BpfProgram, Instruction
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch

_CHECK_EVERY_NS: Final = 1_000_000_000


class InterfaceFeed:
    """The packets of an interface, which may be removed and come back under the same name."""

    is_at_end: Final = False
    about: Final = None
    anomalies: Final[tuple[Anomaly, ...]] = ()

    def __init__(self, capture: LiveCapture, clock_ns: Callable[[], int]) -> None:
        """Read from ``capture``, which stays open; ``clock_ns`` is monotonic."""
        self._capture = capture
        self._clock_ns = clock_ns
        self._check_ns = clock_ns()

    @property
    def dropped_packets(self) -> int:
        """Packets lost before they were read, so far."""
        return self._capture.dropped_packets

    def read(self, timeout_s: float) -> PacketBatch | None:
        """Return the next packets; None if none come in time.

        Raises CaptureError if the interface is back and cannot be opened.
        """
        packets = self._capture.read(timeout_s)
        # A removed interface's buffer is read to the end first.
        if packets is None and self._clock_ns() >= self._check_ns:
            self._check_ns = self._clock_ns() + _CHECK_EVERY_NS
            if self._capture.state is InterfaceState.REMOVED:
                self._capture.reopen()
        return packets


_DLT: Final = {RAW_IP: 12}
"""libpcap's own numbers of link types, where they differ from the LINKTYPE_ values in files."""
_REJECTS_ALL: Final = "expression rejects all packets"


class ExpressionFilter:
    """Selects the packets that tcpdump selects by the same expression."""

    def __init__(self, text: str) -> None:
        """Check the expression; raises what :func:`compile_expression` raises.

        The link types of the packets are not known yet. So the expression must be valid for
        Ethernet or for Linux cooked packets, which have a direction (``inbound``).
        """
        self._text = text
        self._matches = load_libpcap().pcap_offline_filter
        self._programs: dict[int, BpfProgram] = {}
        """Compiled programs by link type."""
        try:
            self._program(ETHERNET)
        except UsageError as error:
            try:
                self._program(COOKED)
            except UsageError:
                raise error from None

    def selected(self, packets: PacketBatch) -> array[int]:
        """Return the indices of the packets that match.

        Raises :class:`UsageError` if the expression is invalid for the link type of a packet.
        """
        arrays = PacketArrays.of(packets)
        headers = np.zeros(len(packets), np.dtype(PacketHeader))
        headers["captured_bytes"] = arrays.captured_bytes
        headers["wire_bytes"] = arrays.wire_bytes
        first = headers.ctypes.data
        data = np.frombuffer(packets.buffer, np.uint8).ctypes.data if len(packets) else 0
        programs = {
            link_type: ctypes.addressof(self._program(link_type))
            for link_type in set(packets.link_type)
        }
        matches = map(
            self._matches,
            map(programs.__getitem__, packets.link_type),
            range(first, first + headers.nbytes, headers.itemsize),
            (arrays.offset + data).tolist(),
        )
        return to_column(np.flatnonzero(np.fromiter(matches, np.int32, len(packets))))

    def _program(self, link_type: int) -> BpfProgram:
        program = self._programs.get(link_type)
        if program is None:
            program = self._programs[link_type] = program_of(self._instructions(link_type))
        return program

    def _instructions(self, link_type: int) -> Sequence[Instruction]:
        try:
            return compile_expression(self._text, _DLT.get(link_type, link_type))
        except UsageError as error:
            # Packets of another link type may match.
            if self._programs and str(error).endswith(_REJECTS_ALL):
                return NOTHING
            raise
