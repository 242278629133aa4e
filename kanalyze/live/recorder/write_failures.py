"""Files that cannot be written, while all else goes on.

In: attempts to write. Out: a line when they begin to fail, one when they succeed again, one at the
end that says what is missing. This module must not know what is written, nor where lines go.

A disk that is full is no reason to stop looking: whoever has a view, or metrics, has them on; and
as soon as there is room again, files are written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WriteFailures"]

_WELL_NS: Final = 60_000_000_000
"""A disk that has room for a moment now and then is full."""


class WriteFailures:
    """Tells of attempts that fail, not of each one."""

    def __init__(
        self, what: str, place: str, tell: Callable[[str], None], written: Callable[[], int]
    ) -> None:
        """Begin well.

        Args:
            what: is written, as the beginning of a line: ``cannot write WHAT to PLACE: ...``.
            place: is the file or the folder, as its user named it: a disk that is full does not
                say which one it is.
            tell: is given a line.
            written: how much was written so far. An attempt that only holds something in memory
                is none that succeeds.
        """
        self.what = what
        self.count = 0
        """Attempts that failed."""
        self._place = place
        self._tell = tell
        self._written = written
        self._reached = 0
        self._failed_ns = 0
        self.problem: str | None = None
        """Why files cannot be written, in a few words; None while they can, as far as is known."""

    def attempt(self, write: Callable[[], object], clock_ns: int) -> None:
        """Call what may raise OSError; ``clock_ns`` is of a clock that does not jump."""
        try:
            write()
        except OSError as error:
            self.count += 1
            if self.problem is None:
                reason = error.strerror or str(error) or type(error).__name__
                self.problem = f"cannot write {self.what} to {self._place}: {reason}"
                self._tell(f"{self.problem}; trying on")
            self._reached, self._failed_ns = self._written(), clock_ns
        if (
            self.problem is not None
            and self._written() > self._reached
            and clock_ns - self._failed_ns >= _WELL_NS
        ):
            self._tell(f"writing {self.what} to {self._place} again")
            self.problem = None

    def end(self, missing: str) -> None:
        """Say what is missing in the end, if anything is."""
        if missing:
            self._tell(f"missing in {self._place}: {missing}")
