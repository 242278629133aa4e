"""A process that waits until other code has polled it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    import pytest

_LOOKS = 3


class Gate:
    """A gate at which a process waits, so that slow polling of processes still sees it."""

    def __init__(self, folder: Path) -> None:
        self._here, self._open = folder / "here", folder / "open"
        self._looks = 0
        self.wait = (
            f"import pathlib, time; pathlib.Path({str(self._here)!r}).touch()\n"
            f"while not pathlib.Path({str(self._open)!r}).exists(): time.sleep(0.01)"
        )
        """The Python code with which the process waits."""

    def open(self) -> None:
        """Let the process continue."""
        self._open.touch()

    def open_after_looks(self, patch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        """Open it when a function, which every poll calls, was called while the process waits."""
        looking: Callable[..., Any] = getattr(module, name)

        def look(*arguments: Any) -> Any:
            self._looks += self._here.exists()
            if self._looks == _LOOKS:
                self.open()
            return looking(*arguments)

        patch.setattr(module, name, look)
