"""How long connections were silent, by a clock that may jump.

In: the times of packets. Out: a number that rises as time passes. Must not know: connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State

__all__ = ["Ages"]

_STEPS: Final = 4
"""To be idle takes one more than these, of which the first and the last are not whole."""


class Ages:
    """Counts the time in steps, of which there are a few to what is idle.

    A clock that jumps, ahead or back, makes one step: nobody has been silent for so long.
    """

    _LEFT_OUT = ("_step_ns",)

    def __init__(self, idle_ns: int) -> None:
        """``idle_ns`` is how long one has to be silent, at least, to be idle: more than 0."""
        self._step_ns = -(-idle_ns // _STEPS)
        self._began_ns: int | None = None
        self.now = 0
        """The present step."""

    def state(self) -> State:
        """Return what :meth:`load_state` takes."""
        return self._began_ns, self.now

    def load_state(self, state: object) -> None:
        """Go on from a state; raises ValueError where that is none."""
        self._began_ns, self.now = fields(state, "In")

    def pass_time(self, now_ns: int) -> bool:
        """Take notice of the time; tell whether a step was made."""
        if self._began_ns is None:
            self._began_ns = now_ns
        if abs(now_ns - self._began_ns) < self._step_ns:
            return False
        self._began_ns = now_ns
        self.now += 1
        return True

    def is_idle(self, seen: int) -> bool:
        """Tell whether one that was last seen in a step is idle by now."""
        return self.now - seen > _STEPS
