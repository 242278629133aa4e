"""What the tests of the protocol share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.schema.catalog import Catalog
from tests.support.vector_table import VECTORS, Outcomes, summary, table

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


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
