"""Whether the compiled modules run, and the stand-in for ``cython`` where they do not.

In: the environment variable ``KANALYZE_PURE``. Out: :func:`is_compiled`, and :class:`cython`, a
stand-in for the package of that name.

A compiled module is plain Python in a ``.py`` file, with its C types in a ``.pxd``. Where it was
built, the compiled one runs, unless ``KANALYZE_PURE=1`` asks for the Python source. The source
gives the same results, some fifty times as slowly.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:  # see kanalyze/cli/interruption.py
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class cython:  # noqa: N801 - it stands for the package of that name
    """The few names of the package ``cython`` that run as Python."""

    compiled = False
    nogil = nullcontext()
    gil = nullcontext()
    int = int
    NULL = None

    @staticmethod
    def cast(_kind: Any, value: Any) -> Any:
        """Return the value as it is: Python's integers have no width."""
        return value

    @staticmethod
    def address(value: Any) -> Any:
        """Return the value: only compiled code needs its address."""
        return value


def start_of(view: bytes | memoryview) -> Any:
    """Stand for the address of a view's first element: the view. See ``machine.pxd``."""
    return view


words_of = start_of


def cells_from(view: memoryview, at: int) -> Any:
    """Stand for the address of an element: the view from there on."""
    return view[at:]


texts_from = bytes_from = cells_from


def copy_bytes(to: memoryview, at: int, data: bytes | memoryview, pos: int, count: int) -> None:
    """Copy bytes from one place to another."""
    to[at : at + count] = data[pos : pos + count]


def are_equal(data: bytes | memoryview, pos: int, other: memoryview, count: int) -> bool:
    """Return true if bytes from a place on are others, from their first on."""
    return data[pos : pos + count] == other[:count]


def int16_in(data: bytes | memoryview, pos: int) -> int:
    """Read a big-endian int16; as the other three, without a check. See ``machine.pxd``."""
    return int.from_bytes(data[pos : pos + 2], "big", signed=True)


def uint32_in(data: bytes | memoryview, pos: int) -> int:
    """Read a big-endian uint32."""
    return int.from_bytes(data[pos : pos + 4], "big")


def int32_in(data: bytes | memoryview, pos: int) -> int:
    """Read a big-endian int32."""
    return int.from_bytes(data[pos : pos + 4], "big", signed=True)


def int64_in(data: bytes | memoryview, pos: int) -> int:
    """Read a big-endian int64."""
    return int.from_bytes(data[pos : pos + 8], "big", signed=True)


def new_record(**members: Any) -> SimpleNamespace:
    """Stand for a C struct."""
    return SimpleNamespace(**members)


def more_frames(old: list[SimpleNamespace] | None, room: int) -> list[SimpleNamespace]:
    """Stand for an array of structs with room for more. See ``frame.pxd``."""
    kept = old or []
    return kept + [new_record() for _ in range(room - len(kept))]


def more_ids(old: list[int], room: int) -> list[int]:
    """Stand for an array of numbers with room for more. See ``correlation.pxd``."""
    return old + [0] * (room - len(old))


def nothing_kept(_value: object) -> None:
    """Stand for a function that releases memory, or takes an object from the garbage collector."""


class _Sources:
    """An import finder: finds the ``.py`` of a module that was also compiled."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the source is; None for modules that are never compiled."""
        if path is None or not name.startswith("kanalyze."):
            return None
        import importlib.util  # not where compiled modules run
        from pathlib import Path

        for folder in path:
            types = Path(folder, name.rpartition(".")[2] + ".pxd")
            if types.exists():
                return importlib.util.spec_from_file_location(name, types.with_suffix(".py"))
        return None


def prefer_sources() -> None:
    """Let modules that are imported from now on run uncompiled."""
    sys.meta_path.insert(0, _Sources)


def is_pure_wanted() -> bool:
    """Return true if the uncompiled modules were asked for."""
    return os.environ.get("KANALYZE_PURE") == "1"


def is_compiled() -> bool:
    """Return true if the compiled modules run."""
    import kanalyze.common.int_columns  # noqa: F401 - all are compiled, or none; most commands need it

    return not (sys.modules["kanalyze.common.int_columns"].__file__ or "").endswith(".py")
