"""The codec twice: compiled, and as the Python that it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kanalyze.protocol import compiler
from kanalyze.protocol.codec import machine, program, values
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_BESIDES = ("kanalyze.protocol.codec.program", "kanalyze.protocol.compiler")


def _core(modules: dict[str, ModuleType]) -> SimpleNamespace:
    return SimpleNamespace(
        machine=modules["kanalyze.protocol.codec.machine"],
        values=modules["kanalyze.protocol.codec.values"],
        program=modules["kanalyze.protocol.codec.program"],
        compiler=modules["kanalyze.protocol.compiler"],
    )


@pytest.fixture(scope="session", params=["compiled", "uncompiled"])
def core(request: pytest.FixtureRequest) -> Iterator[SimpleNamespace]:
    """Give the codec's modules, of one kind and then of the other."""
    if request.param == "compiled":
        yield SimpleNamespace(machine=machine, values=values, program=program, compiler=compiler)
        return
    with uncompiled(*_BESIDES) as modules:
        pass
    yield _core(modules)
