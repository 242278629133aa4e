"""The modules of the codec twice: compiled and uncompiled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.codec import compiler, machine, program, values
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_MORE_MODULES = ("kanalyze.kafka.codec.program", "kanalyze.kafka.codec.compiler")


def _core(modules: dict[str, ModuleType]) -> SimpleNamespace:
    return SimpleNamespace(
        machine=modules["kanalyze.kafka.codec.machine"],
        values=modules["kanalyze.kafka.codec.values"],
        program=modules["kanalyze.kafka.codec.program"],
        compiler=modules["kanalyze.kafka.codec.compiler"],
    )


@pytest.fixture(scope="session", params=["compiled", "uncompiled"])
def core(request: pytest.FixtureRequest) -> Iterator[SimpleNamespace]:
    """Give the codec's modules: first compiled, then uncompiled."""
    if request.param == "compiled":
        yield SimpleNamespace(machine=machine, values=values, program=program, compiler=compiler)
        return
    with uncompiled(*_MORE_MODULES) as modules:
        pass
    yield _core(modules)
