"""The one file starts where nothing but Python is: another user's folder, no variables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.captures import path
from tests.support.clean_environments import CleanEnvironment, install, make_wheel
from tools.packaging.onefile import pack

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 120_000_000


@pytest.mark.long
def test_it_starts_in_a_clean_root_and_does_what_a_broker_needs(tmp_path: Path) -> None:
    wheel = install(make_wheel(tmp_path / "wheel"), tmp_path / "installed")
    environment = CleanEnvironment(tmp_path / "environment", wheel, ["live"])
    (linked,) = environment.folder.glob("lib/python3*/site-packages")
    packages = tmp_path / "packages"
    shutil.copytree(linked, packages)
    file = tmp_path / "kanalyze.pyz"
    pack(packages, file)
    assert file.stat().st_size < MOST_BYTES
    home = tmp_path / "home"
    home.mkdir()
    capture = tmp_path / "broker.pcap"
    shutil.copy(path("basics"), capture)
    # The interpreter itself, not that of the environment that these tests run in.
    python = os.path.realpath(sys.executable)

    def run(*words: str) -> str:
        with capture.open("rb") as packets:
            done = subprocess.run(
                [python, "-I", str(file), *words],
                check=True,
                stdin=packets,
                stdout=subprocess.PIPE,
                cwd=home,
                env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
            )
        return done.stdout.decode()

    assert "(compiled)" in run("--version")
    assert "309 requests" in run("report", str(capture))
    assert run("requests", str(capture), "-o", "rows.parquet") == ""
    assert (home / "rows.parquet").stat().st_size > 0
    assert len(run("live", "-", "--format", "rows").splitlines()) == 309
    assert run("live", "--list")
    assert (home / ".shiv").is_dir()
