"""A driver that runs ``kanalyze batch``, whose tasks wait while a worker is lost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import kanalyze.batch.run
from kanalyze.batch.archive.tasks import Job
from kanalyze.cli.main import main as command
from tests.spark.drivers.marking import REBUILDING, MarkingJob
from tests.support.spark_cluster import answer, cluster_settings

HELD_FROM = 2
"""Tasks of this partition and of all later ones wait."""


def main(master: str, folder: str, *arguments: str) -> None:
    """Answer with the command's status."""

    def held_job(*given: Any, **named: Any) -> MarkingJob:
        return MarkingJob.of(Job(*given, **named), folder, REBUILDING, HELD_FROM)

    kanalyze.batch.run.Job = held_job  # type: ignore[assignment, misc]
    conf = [f"{name}={value}" for name, value in cluster_settings(Path(folder)).items()]
    settings = [text for setting in conf for text in ("--conf", setting)]
    answer(command(["batch", "--master", master, *settings, *arguments]))


if __name__ == "__main__":
    main(*sys.argv[1:])
