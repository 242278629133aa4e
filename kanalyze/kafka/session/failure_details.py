"""Says in words where a malformed body cannot be read, and why; bounded in time.

In: a frame whose body could not be decoded. Out: text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.codec.failures import locate_failure
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.session.decode_plans import DecodePlan

__all__ = ["FailureDetails"]

_LARGEST_EXPLAINED_BYTES = 16 * 1024
_EXPLAINED_BYTES = 1 << 20
"""How many bytes of malformed messages the interpreter reads in all, at 5 us a byte. A capture may
contain nothing else; later messages get the reason without the field."""

_REMEMBERED_BYTES, _MAX_REMEMBERED = 256, 256
"""Up to which size in bytes, and for how many different messages, details are remembered."""


class FailureDetails:
    """Explains malformed bodies; one for all connections."""

    __slots__ = ("_explained_bytes", "_remembered")

    def __init__(self) -> None:
        self._explained_bytes = 0
        self._remembered: dict[tuple[DecodePlan, int, bytes], str] = {}

    def explain(self, frame: Frame, at: int, plan: DecodePlan, reason: str) -> str:
        """Say where the body at ``at`` cannot be read, and why; the reason alone if it is large.

        Positions count from the first byte of the size prefix, as those of ``decode``.
        """
        if frame.length > _REMEMBERED_BYTES or frame.missing_bytes:
            return self._explain(frame, at, plan, reason)
        # A client or a broker that writes a wrong message mostly writes it again and again.
        try:
            key = (plan, at, bytes(frame.read(at, frame.length - at)))
        except WireError:  # the header takes up the frame, or bytes were dropped
            return self._explain(frame, at, plan, reason)
        detail = self._remembered.get(key)
        if detail is None:
            detail = self._explain(frame, at, plan, reason)
            if len(self._remembered) < _MAX_REMEMBERED:
                self._remembered[key] = detail
        return detail

    def _explain(self, frame: Frame, at: int, plan: DecodePlan, reason: str) -> str:
        length = frame.length
        if length > min(_LARGEST_EXPLAINED_BYTES, _EXPLAINED_BYTES - self._explained_bytes):
            return reason
        try:
            data = frame.read(0, length)
        except WireError:  # bytes that no field needs were dropped
            return reason
        self._explained_bytes += length
        assert plan.definition is not None
        assert plan.version is not None
        path, position, reason = locate_failure(plan.definition, plan.version, data, at, reason)
        return f"{path}, byte {position}: {reason}" if path else f"byte {position}: {reason}"
