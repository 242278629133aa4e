"""An interface as a feed that does not end: one that is removed is looked for until it is back.

In: what listens on an interface; a clock. Out: its packets. This module must not know how packets
are captured, nor who reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kanalyze.capture.live.packet_socket import InterfaceState

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch

__all__ = ["InterfaceFeed"]

_LOOK_EVERY_NS: Final = 1_000_000_000


class _InterfaceCapture(Protocol):
    """What :class:`~kanalyze.capture.live.capture.LiveCapture` has."""

    @property
    def state(self) -> InterfaceState: ...

    @property
    def dropped_packets(self) -> int: ...

    def read(self, timeout_s: float) -> PacketBatch | None: ...

    def reopen(self) -> bool: ...


class InterfaceFeed:
    """The packets of an interface of a name, whichever has that name now."""

    is_at_end: Final = False
    about: Final = None
    anomalies: Final[tuple[Anomaly, ...]] = ()

    def __init__(self, capture: _InterfaceCapture, clock_ns: Callable[[], int]) -> None:
        """Read from ``capture``, which stays open; ``clock_ns`` does not jump."""
        self._capture = capture
        self._clock_ns = clock_ns
        self._look_ns = clock_ns()

    @property
    def dropped_packets(self) -> int:
        """Packets lost before they were read, so far."""
        return self._capture.dropped_packets

    def read(self, timeout_s: float) -> PacketBatch | None:
        """Return what has come, or None when nothing did in time.

        Raises CaptureError when the interface is back and cannot be listened on.
        """
        packets = self._capture.read(timeout_s)
        # What was still held of the one that was removed has been read when nothing comes.
        if packets is None and self._clock_ns() >= self._look_ns:
            self._look_ns = self._clock_ns() + _LOOK_EVERY_NS
            if self._capture.state is InterfaceState.REMOVED:
                self._capture.reopen()
        return packets
