"""What the tests of the protocol share."""

from __future__ import annotations

import pytest

from kanalyze.protocol.catalog import Catalog


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog()
