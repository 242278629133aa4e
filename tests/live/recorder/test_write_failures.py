from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from kanalyze.live.run import WriteFailures

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTE_NS = 60_000_000_000


class Disk:
    """A fake target of writes, and the messages about it."""

    def __init__(self) -> None:
        self.written = 0
        self.messages: list[str] = []
        self.clock_ns = 5
        self._failures = WriteFailures(
            "rows", "/data/rows", self.messages.append, lambda: self.written
        )
        self.end = self._failures.end

    def attempt(self, *attempts: Callable[[], object]) -> None:
        """Attempt each action in order, without time passing."""
        for action in attempts:
            self._failures.attempt(action, self.clock_ns)

    def write(self) -> None:
        self.written += 1

    def hold(self) -> None:
        """Buffer the data, without writing it."""

    def fail(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def fail_in_the_middle(self) -> None:
        self.written += 1
        raise OSError(errno.EIO, "Input/output error")


def test_the_start_and_the_end_of_a_failure_are_reported_once() -> None:
    disk = Disk()
    disk.attempt(disk.write, disk.fail, disk.fail, disk.hold, disk.fail)
    assert disk.messages == [
        "cannot write rows to /data/rows: No space left on device; trying again"
    ]
    disk.clock_ns += MINUTE_NS
    disk.attempt(disk.hold)
    assert disk.messages[1:] == []
    disk.attempt(disk.write, disk.write)
    assert disk.messages[1:] == ["writing rows to /data/rows again"]
    disk.attempt(disk.fail)
    assert disk.messages[2:] == [
        "cannot write rows to /data/rows: No space left on device; trying again"
    ]
    disk.end("7 rows")
    assert disk.messages[3:] == ["missing in /data/rows: 7 rows"]


def test_a_failure_ends_only_after_a_minute_without_failures() -> None:
    """Otherwise there would be two messages at each attempt."""
    disk = Disk()
    for _ in range(100):
        disk.clock_ns += MINUTE_NS // 2
        disk.attempt(disk.fail, disk.write)
    assert len(disk.messages) == 1
    disk.clock_ns += MINUTE_NS
    disk.attempt(disk.hold)
    assert disk.messages[1:] == ["writing rows to /data/rows again"]


def test_a_partial_write_that_fails_is_a_failure() -> None:
    disk = Disk()
    for _ in range(3):
        disk.clock_ns += MINUTE_NS
        disk.attempt(disk.fail_in_the_middle)
    assert disk.messages == ["cannot write rows to /data/rows: Input/output error; trying again"]
