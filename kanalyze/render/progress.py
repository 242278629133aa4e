"""The progress of a long command, in one line.

In: amounts done and their times. Out: a text with share, amount, rate and time left.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.render.units import bytes_text, count_text, duration_text, rate_text

BYTES: Final = "B"
"""The unit of amounts in bytes; other units are words, such as ``tasks``."""

_SECOND: Final = 1_000_000_000
_RATE_S: Final = 10.0
"""The rate is computed over this time. Over a shorter time it would jump; over the whole run it
would hide that the run got slower."""
_BAR: Final = 10


class ProgressState(NamedTuple):
    """The state of a running command."""

    phase: str
    """The current phase, such as ``reading``."""
    elapsed_s: float
    """Seconds since the phase began."""
    done: int = 0
    total: int | None = None
    """The amount in all; None if unknown."""
    per_second: float | None = None
    """Amount per second; None if unknown."""
    unit: str = BYTES

    @property
    def share(self) -> float | None:
        """The share that is done, from 0 to 1; None if unknown."""
        return min(self.done / self.total, 1.0) if self.total else None


class RateMeter:
    """The rate of the last seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()
        self._total: int | None = None

    def add(self, now_s: float, done: int, total: int | None) -> float | None:
        """Add the present amount; return the rate per second, None if unknown.

        If the amount falls or the total changes, measuring starts again.
        """
        samples = self._samples
        if samples and (done < samples[-1][1] or self._total not in (None, total)):
            samples.clear()
        self._total = total
        samples.append((now_s, done))
        while len(samples) > 2 and samples[1][0] <= now_s - _RATE_S:
            samples.popleft()
        first_s, first = samples[0]
        return (done - first) / (now_s - first_s) if done > first and now_s > first_s else None


def progress_text(state: ProgressState) -> str:
    """Return a line for a log: ``reading: 45 %, 1.2 GB of 2.7 GB, 143 MB/s, 10 s left``."""
    return f"{state.phase}: {', '.join(_parts(state).values())}"


def progress_line(state: ProgressState, width: int) -> str:
    """Return a line for a terminal, with a bar if there is room; at most ``width`` characters.

    In narrow windows the bar, the amount, then the rate are left out.
    """
    parts = _parts(state)
    if state.share is not None:
        filled = int(state.share * _BAR)
        parts = {"bar": f"[{'#' * filled}{'.' * (_BAR - filled)}]", **parts}
    for left_out in (None, "bar", "amount", "rate"):
        parts.pop(left_out or "", None)
        line = "  ".join([state.phase, *parts.values()])
        if len(line) <= width:
            return line
    return line[:width]


def _parts(state: ProgressState) -> dict[str, str]:
    """Return the known parts of the line by name, in order; at least one."""
    parts = {}
    if state.share is not None:
        # Rounded down, so that 100 % means the end.
        parts["share"] = f"{int(100 * state.share)} %"
    if state.done or state.total:
        parts["amount"] = _amount(state)
    if state.per_second is not None:
        parts["rate"] = _rate(state.per_second, state.unit)
    if state.per_second is not None and state.total is not None and state.done < state.total:
        parts["left"] = f"{_seconds((state.total - state.done) / state.per_second)} left"
    else:
        parts["elapsed"] = f"for {_seconds(state.elapsed_s)}"
    return parts


def _amount(state: ProgressState) -> str:
    if state.unit == BYTES:
        done, total, unit = bytes_text(state.done), bytes_text(state.total), ""
    else:
        done, total, unit = count_text(state.done), count_text(state.total), f" {state.unit}"
    return f"{done}{unit}" if state.total is None else f"{done} of {total}{unit}"


def _rate(per_second: float, unit: str) -> str:
    if unit == BYTES:
        return rate_text(round(per_second), _SECOND, BYTES)
    return f"{per_second:.3g} {unit}/s"


def _seconds(seconds: float) -> str:
    return duration_text(max(round(seconds), 1) * _SECOND)
