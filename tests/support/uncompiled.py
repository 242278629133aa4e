"""A second, uncompiled set of the compiled modules."""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import kanalyze
from kanalyze.common.compiled import prefer_sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT = Path(kanalyze.__file__).parent


def compiled_modules() -> list[str]:
    """Return the names of the modules with a .pxd file."""
    return [
        ".".join(("kanalyze", *path.relative_to(ROOT).with_suffix("").parts))
        for path in sorted(ROOT.rglob("*.pxd"))
    ]


@contextmanager
def uncompiled(*besides: str) -> Iterator[dict[str, ModuleType]]:
    """Import the compiled modules uncompiled, and ``besides`` anew; yield them by name.

    Imports meanwhile get these modules; afterwards everything is as before.
    """
    names = [*compiled_modules(), *besides]
    known = set(sys.modules)
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    finders = list(sys.meta_path)
    prefer_sources()
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.meta_path[:] = finders
        # Modules imported meanwhile for the first time use uncompiled classes.
        new = [name for name in sys.modules if name not in known and name.startswith("kanalyze.")]
        for name in {*names, *new}:
            sys.modules.pop(name, None)
        sys.modules.update(before)
