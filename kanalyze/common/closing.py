"""What is closed at the end of a ``with`` block.

In: a class with a method ``close``, and perhaps ``abort``. Out: the same class as a context
manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class ClosedAtEnd:
    """Calls :meth:`close` at the end of a ``with`` block, after an error too."""

    __slots__ = ()

    def close(self) -> None:
        """Release what is held, such as a file."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ClosedOrAborted(ClosedAtEnd):
    """Calls :meth:`close` at the end of a ``with`` block, but :meth:`abort` after an error."""

    __slots__ = ()

    def abort(self) -> None:
        """Discard what is unfinished, such as a file."""
        raise NotImplementedError

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self.close()
        else:
            self.abort()
