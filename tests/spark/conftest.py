"""One Spark session for all tests here, for it takes seconds to start; a cluster for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.spark import local_session
from tests.support.spark_cluster import StandaloneCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(autouse=True)
def _stacks_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a data source of this process sets for its own is not inherited by sessions."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """A cluster of the test's own, whose workers it may kill."""
    started = StandaloneCluster(tmp_path / "cluster")
    try:
        yield started
    finally:
        started.stop()
