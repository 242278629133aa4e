"""The packet layer is tested twice: compiled, and as plain Python."""

from __future__ import annotations

import shutil
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from kanalyze.net.tcp import reassembly
from tests.support import measuring, packets, read_segments, streams
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator

# tshark is a separate program; without it no test compares with it.
collect_ignore_glob = [] if shutil.which("tshark") else ["*_tshark.py"]

_ROOT = "kanalyze.net."


@pytest.fixture(scope="session")
def plain_modules() -> dict[str, ModuleType]:
    """Return the uncompiled modules of the packet layer."""
    names = [name for name in sys.modules if name.startswith(_ROOT)]
    with uncompiled(*names) as modules:
        pass
    return modules


@pytest.fixture(scope="module", params=["compiled", "uncompiled"], autouse=True)
def core(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the tests of a module on both: the modules that they and their helpers import differ."""
    if request.param == "compiled":
        yield request.param
        return
    modules = request.getfixturevalue("plain_modules")
    with pytest.MonkeyPatch.context() as patch:
        for module in (request.module, measuring, packets, read_segments, streams):
            for name, value in list(vars(module).items()):
                if isinstance(value, ModuleType):
                    patch.setattr(module, name, modules.get(value.__name__, value))
                    continue
                plain = modules.get(getattr(value, "__module__", None) or "")
                if plain is not None and hasattr(plain, name):
                    patch.setattr(module, name, getattr(plain, name))
        assert packets.Reassembler is not reassembly.Reassembler
        yield request.param
