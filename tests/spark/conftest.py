"""One Spark session for all tests here, because it takes seconds to start; a cluster per test."""

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
    """Sessions do not inherit what a data source in this process sets for itself."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """A cluster for one test, which may kill its workers."""
    started = StandaloneCluster(tmp_path / "cluster")
    try:
        yield started
    finally:
        started.stop()
