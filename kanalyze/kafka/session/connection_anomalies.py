"""What is found out about one connection besides its exchanges: anomalies, and bytes by their fate.

In: frames and exchanges, with what is wrong with them. Out: :class:`~kanalyze.model.Anomaly`, two
counters, where tokens are (:class:`~kanalyze.model.TokenBytes`). This module must not know how any
of it is found.

Compiled by Cython, with the types in ``findings.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields, items
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.streams import TokenBytes

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.framing.framer import FrameCutter
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.model.tcp import TcpConnection

__all__ = ["PENDING_BYTES", "Findings"]

PENDING_BYTES = 2048
"""What a request without an answer takes, about: an exchange, a message, its values."""


_new = tuple.__new__


class Findings:
    """Collects the anomalies of a connection until they are taken.

    ``decoded_bytes`` and ``undecoded_bytes`` count whole frames, by whether their body was read to
    the end.
    """

    __slots__ = (
        "_anomalies",
        "_begun",
        "_tcp",
        "_tokens",
        "decoded_bytes",
        "has_begun",
        "has_unread",
        "undecoded_bytes",
        "unread",
    )
    _LEFT_OUT = ("_anomalies", "_tcp", "_tokens", "has_begun", "has_unread")

    def __init__(self, tcp: TcpConnection) -> None:
        self.decoded_bytes = 0
        self.undecoded_bytes = 0
        self._tcp = tcp
        self._anomalies: list[Anomaly] = []
        self._tokens: list[TokenBytes] = []
        self.unread: tuple[list[int], list[int]] = ([], [])
        """By direction: where in the stream bytes begin that could not be read, until the next
        frame there is read."""
        self._begun = [-1, -1]
        """By direction: the frame without an end that was hidden last, by its place."""
        self.has_unread = self.has_begun = False
        """Whether there may be anything in ``unread``, and ever was in ``_begun``: few connections
        have either, and it is asked for each message."""

    def state(self) -> State:
        """Return what :meth:`load_state` takes, once anomalies and tokens were taken."""
        unread = tuple(self.unread[0]), tuple(self.unread[1])
        return self.decoded_bytes, self.undecoded_bytes, *unread, *self._begun

    def load_state(self, state: object) -> None:
        """Go on from a state; raises ValueError where that is none."""
        decoded, undecoded, one, other, *begun = fields(state, "nnttii")
        self.decoded_bytes, self.undecoded_bytes = decoded, undecoded
        self.unread = list(items(one, "n")), list(items(other, "n"))
        self._begun = begun
        self.has_unread = bool(one or other)
        self.has_begun = begun != [-1, -1]

    def take(self) -> list[Anomaly]:
        """Return the anomalies since the last call."""
        found, self._anomalies = self._anomalies, []
        return found

    def take_tokens(self) -> list[TokenBytes]:
        """Return where tokens are, as far as that was found since the last call."""
        found, self._tokens = self._tokens, []
        return found

    def hide(self, frame: Frame, side: int, begin: int, end: int | None = None) -> None:
        """Note that a frame holds a token, from one of its positions to another, or to its end."""
        at = frame.stream_offset
        self._hide(side, at, at + begin, at + (frame.length if end is None else end))

    def hide_begun(self, frame: Frame, side: int, begin: int) -> None:
        """Note that a frame without an end may hold a token, until that is known."""
        self._begun[side] = frame.stream_offset
        self.has_begun = True
        self.hide(frame, side, begin)

    def show_ended(self, frame: Frame, side: int) -> None:
        """Note that all of a frame is there, and may be looked at once more."""
        if self._begun[side] == frame.stream_offset:
            self.hide(frame, side, 0, 0)

    def hide_unread(self, side: int, stream_offset: int) -> None:
        """Note that what follows cannot be read: there may be a token in it."""
        self.unread[side].append(stream_offset)
        self.has_unread = True
        self._hide(side, stream_offset, stream_offset, None)

    def end_unread(self, side: int, stream_offset: int) -> None:
        """Note that what begins at ``stream_offset`` can be read again."""
        unread = self.unread[side]
        while unread and unread[0] <= stream_offset:
            begin = unread.pop(0)
            self._hide(side, begin, begin, stream_offset)
        self.has_unread = bool(self.unread[0] or self.unread[1])

    def _hide(self, side: int, stream_offset: int, begin: int, end: int | None) -> None:
        time_ns = self._tcp.last_time_ns
        self._tokens.append(TokenBytes(self._tcp, side, stream_offset, begin, end, time_ns))

    def of_frame(
        self,
        kind: AnomalyKind,
        frame: Frame,
        side: int,
        detail: str = "",
        exchange: Exchange | None = None,
    ) -> None:
        """Note what is wrong with a frame, and with the exchange that it is of, if it is known."""
        if exchange is not None and kind not in exchange.anomalies:
            exchange.anomalies.append(kind)
        self._add(
            kind,
            frame.start_time_ns,
            frame.start_packet,
            side,
            frame.stream_offset,
            frame.length,
            detail,
            exchange,
        )

    def of_exchange(self, kind: AnomalyKind, exchange: Exchange) -> None:
        """Note what is wrong with an exchange as a whole."""
        message = exchange.request or exchange.response
        # The size of a message that has not ended is what it says, not what it is.
        is_whole = AnomalyKind.INCOMPLETE_FRAME not in exchange.anomalies
        exchange.anomalies.append(kind)
        self._add(
            kind,
            message.start_ns if message else None,
            message.start_packet if message else None,
            None,
            None,
            message.length if message and is_whole else None,
            "",
            exchange,
        )

    def losses(self, cutter: FrameCutter, side: int) -> list[tuple[int, int, int]]:
        """Note where a direction lost sync; return stream offset, time and packet of each."""
        found = []
        for stream_offset, size, time_ns, packet in cutter.take_losses():
            kind = AnomalyKind.NOT_IN_SYNC if size is None else AnomalyKind.IMPLAUSIBLE_SIZE
            detail = "" if size is None else f"size {size}"
            self._add(kind, time_ns, packet, side, stream_offset, None, detail, None)
            found.append((stream_offset, time_ns, packet))
        return found

    def incomplete(self, cutter: FrameCutter, side: int) -> Frame | None:
        """Note the frame that a direction ended within; return it, None for none."""
        frame = cutter.partial
        if frame is not None:
            seen_bytes = cutter.partial_bytes
            self.undecoded_bytes += seen_bytes
            self._add(
                AnomalyKind.INCOMPLETE_FRAME,
                frame.start_time_ns,
                frame.start_packet,
                side,
                frame.stream_offset,
                seen_bytes,
                f"of {frame.length} bytes",
                None,
            )
        return frame

    def shed(self, cutter: FrameCutter, side: int) -> None:
        """Let a cutter drop what it holds, and say so if that is anything."""
        offset, dropped = cutter.shed()
        if dropped:
            detail = "of a message that has not ended, or out of step"
            time_ns = self._tcp.last_time_ns
            self._add(AnomalyKind.MEMORY_LIMIT, time_ns, None, side, offset, dropped, detail, None)

    def _add(
        self,
        kind: AnomalyKind,
        time_ns: int | None,
        packet: int | None,
        side: int | None,
        stream_offset: int | None,
        length: int | None,
        detail: str,
        exchange: Exchange | None,
    ) -> None:
        key = None if exchange is None else exchange.api_key
        version = None if exchange is None else exchange.api_version
        # Straight to the tuple: some clients do the same wrong thing in every message.
        place = time_ns, packet, self._tcp, side, stream_offset
        self._anomalies.append(_new(Anomaly, (kind, *place, length, key, version, None, detail)))
