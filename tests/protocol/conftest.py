"""What the tests of the protocol share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.protocol.catalog import Catalog
from tests.support.vector_table import Outcomes, summary, table

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

_OUTCOMES = pytest.StashKey[Outcomes]()


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog()


@pytest.fixture(scope="session")
def vector_outcomes(pytestconfig: pytest.Config) -> Outcomes:
    """What the comparison with Kafka's vectors found; shown at the end of the run."""
    return pytestconfig.stash.setdefault(_OUTCOMES, {})


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Say which versions decode equal to Kafka's own JSON: a line, with -v the whole table."""
    outcomes = config.stash.get(_OUTCOMES, None)
    if outcomes is None:
        return
    catalog = Catalog()
    terminalreporter.section("Kafka's own vectors")
    if config.get_verbosity() > 0:
        terminalreporter.write("\n".join(table(outcomes, catalog)) + "\n")
    else:
        terminalreporter.write(f"{summary(outcomes, catalog)} (the table: -v)\n")
