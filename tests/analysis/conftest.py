"""What makes rows twice: compiled, and as the Python that it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kanalyze import packet_columns
from kanalyze.analysis import block, column_buffers, column_math, extract, row_builder
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from types import ModuleType

_MODULES = ("block", "column_buffers", "column_math", "extract", "row_builder")
_BESIDES = ("kanalyze.analysis.block", "kanalyze.analysis.kafka07")


def _named(modules: dict[str, ModuleType]) -> SimpleNamespace:
    own = {name: modules[f"kanalyze.analysis.{name}"] for name in _MODULES}
    return SimpleNamespace(**own, packet_columns=modules["kanalyze.packet_columns"])


@pytest.fixture(scope="session")
def compiled() -> SimpleNamespace:
    """Give the modules that make rows, compiled."""
    return SimpleNamespace(
        block=block,
        column_buffers=column_buffers,
        column_math=column_math,
        extract=extract,
        packet_columns=packet_columns,
        row_builder=row_builder,
    )


@pytest.fixture(scope="session")
def uncompiled_rows() -> SimpleNamespace:
    """Give them uncompiled."""
    with uncompiled(*_BESIDES) as modules:
        pass
    return _named(modules)


@pytest.fixture(scope="session", params=["compiled", "uncompiled"])
def core(
    request: pytest.FixtureRequest, compiled: SimpleNamespace, uncompiled_rows: SimpleNamespace
) -> SimpleNamespace:
    """Give the modules that make rows, of one kind and then of the other."""
    return compiled if request.param == "compiled" else uncompiled_rows
