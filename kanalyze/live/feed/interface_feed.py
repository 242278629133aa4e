"""A feed of an interface: if the interface is removed, the feed waits until it is back.

In: a live capture; a clock. Out: its packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.capture.live.packet_socket import InterfaceState

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.capture.live.capture import LiveCapture
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch

__all__ = ["InterfaceFeed"]

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
