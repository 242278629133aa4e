"""Runs a kanalyze command and tells in which modules its time went.

    python -m benchmarks.sampler TARGET.json COMMAND...

A timer asks every millisecond which module of kanalyze is at work: the innermost one on the stack,
so that what NumPy or pyarrow do counts for who called them. The time since the timer asked last
counts for that module, so that a long call into C counts in full. Writes ``{module: seconds}``;
modules are named by their path in the package, such as ``net/headers``. What imports take is
``start-up``. Only of this process, and only where there are timers (not on Windows).
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from kanalyze.cli.main import run

if TYPE_CHECKING:
    from types import FrameType

START_UP, UNKNOWN = "start-up", "unknown"
_PACKAGE = str(Path(sys.modules["kanalyze"].__file__ or "").parent) + "/"
_SHARED = ("model/packet_arrays", "model/packets")  # what they do counts for who called them
_EVERY_S = 0.001


def module_of(frame: FrameType | None) -> str:
    """Return the module of kanalyze that is at work in a stack."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return START_UP
        if file.startswith(_PACKAGE):
            name = file.removeprefix(_PACKAGE).removesuffix(".py")
            if name not in _SHARED:
                return name
        frame = frame.f_back
    return UNKNOWN


class Sampler:
    """Sums up seconds by module, from when it is made."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._asked_s = time.perf_counter()

    def take(self, _number: int, frame: FrameType | None) -> None:
        """Count the time since the last call for the module at work: a signal handler."""
        now_s = time.perf_counter()
        self.seconds[module_of(frame)] += now_s - self._asked_s
        self._asked_s = now_s


def main() -> None:
    """Run the command that the command line gives; end as it does."""
    target = Path(sys.argv[1])
    sys.argv = ["kanalyze", *sys.argv[2:]]
    sampler = Sampler()
    signal.signal(signal.SIGALRM, sampler.take)
    signal.setitimer(signal.ITIMER_REAL, _EVERY_S, _EVERY_S)
    try:
        run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        target.write_text(json.dumps(sampler.seconds))


if __name__ == "__main__":
    main()
