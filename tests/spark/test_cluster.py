"""A cluster of two workers survives the loss of one: other tests rely on this."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.drivers.squares import GO_ON, NUMBERS, PARTITIONS
from tests.support.spark_cluster import WORKERS
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.spark_cluster import StandaloneCluster

pytestmark = pytest.mark.long
SQUARES = "tests.spark.drivers.squares"
TOTAL = sum(number * number for number in range(NUMBERS))


def test_a_job_survives_the_loss_of_a_worker(cluster: StandaloneCluster) -> None:
    assert cluster.alive_workers() == WORKERS
    with cluster.driver(SQUARES) as driver:

        def attempts() -> set[str]:
            return {path.name for path in driver.folder.glob("attempt-*")}

        # Each worker has one core: once two tasks have begun, both workers are busy.
        wait_until(lambda: len(attempts()) == WORKERS, "tasks run")
        cluster.kill_worker(0)
        (driver.folder / GO_ON).touch()
        assert driver.result() == {"total": TOTAL}
        attempted = attempts()
    assert len(attempted) > PARTITIONS
    assert len({name.split("-")[1] for name in attempted}) == PARTITIONS
    wait_until(lambda: cluster.alive_workers() == WORKERS - 1, "the master notices the lost worker")
