"""Reports files that cannot be written, while the run continues.

In: attempts to write. Out: a message when attempts begin to fail, when they succeed again, and at
the end if something is missing.

A full disk does not end the run: the view and the metrics continue, and files are written again as
soon as there is room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.errors import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WriteFailures"]

_RECOVERED_NS: Final = 60_000_000_000
"""Time for which writing must succeed before success is reported: a full disk may have room for a
moment."""


class WriteFailures:
    """Reports that attempts to write fail, but not each failure."""

    def __init__(
        self, what: str, target: str, warn: Callable[[str], None], written: Callable[[], int]
    ) -> None:
        """Start without failures.

        Args:
            what: the contents, as in ``cannot write WHAT to TARGET: ...``.
            target: the file or folder as the user named it.
            warn: receives messages.
            written: returns how much was written so far. An attempt that writes nothing does not
                count as a success.
        """
        self.what = what
        self.count = 0
        """Attempts that failed."""
        self._target = target
        self._warn = warn
        self._written = written
        self._written_at_failure = 0
        self._failed_ns = 0
        self.problem: str | None = None
        """Why files cannot be written; None if they can."""

    def attempt(self, write: Callable[[], object], clock_ns: int) -> None:
        """Call ``write``, which may raise OSError, at a time ``clock_ns`` of a monotonic clock."""
        try:
            write()
        except OSError as error:
            self.count += 1
            if self.problem is None:
                self.problem = f"cannot write {self.what} to {self._target}: {reason_of(error)}"
                self._warn(f"{self.problem}; trying again")
            self._written_at_failure, self._failed_ns = self._written(), clock_ns
        if (
            self.problem is not None
            and self._written() > self._written_at_failure
            and clock_ns - self._failed_ns >= _RECOVERED_NS
        ):
            self._warn(f"writing {self.what} to {self._target} again")
            self.problem = None

    def end(self, missing: str) -> None:
        """Report what is missing at the end, if anything."""
        if missing:
            self._warn(f"missing in {self._target}: {missing}")
