"""What the tests of the protocol share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.codec import compiler, machine, values
from kanalyze.kafka.framing import frame
from kanalyze.kafka.records import batches
from kanalyze.kafka.schema.catalog import Catalog
from tests.support.uncompiled import uncompiled
from tests.support.vector_table import VECTORS, Outcomes, summary, table

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


_CORE = (batches, compiler, frame, machine, values)


@pytest.fixture(scope="session", params=["compiled", "uncompiled"])
def core(request: pytest.FixtureRequest) -> SimpleNamespace:
    """Give the modules of codec, framing and records: first compiled, then uncompiled."""
    modules = {module.__name__: module for module in _CORE}
    if request.param == "uncompiled":
        with uncompiled(compiler.__name__) as modules:
            pass
    return SimpleNamespace(
        **{each.__name__.rpartition(".")[2]: modules[each.__name__] for each in _CORE}
    )


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog()


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Report which versions decode equal to Kafka's own JSON: a line, with -v the whole table."""
    outcomes: Outcomes = {
        (name, version): differences
        for result in ("passed", "failed")
        for report in terminalreporter.getreports(result)
        for label, found in report.user_properties
        if label == VECTORS
        for name, version, differences in found
    }
    if not outcomes:
        return
    catalog = Catalog()
    terminalreporter.section("Kafka's own vectors")
    if config.get_verbosity() > 0:
        terminalreporter.write("\n".join(table(outcomes, catalog)) + "\n")
    else:
        terminalreporter.write(f"{summary(outcomes, catalog)} (the table: -v)\n")
