"""Copies of this project, and virtual environments to install them into."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from typing import TYPE_CHECKING

from tests.support.captures import ROOT

if TYPE_CHECKING:
    from pathlib import Path

_FILES = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE")
_FOLDERS = ("kanalyze", "tools/packaging", "tests")
_MADE = shutil.ignore_patterns("__pycache__", "*.so", "*.c", "*.pyd", "*.html", "*.egg-info")
_BUILD_ARCHIVE = """
import sys
sys.path.insert(0, "tools/packaging")
import backend
print(backend.build_sdist(sys.argv[1]))
"""


class Project:
    """A copy of the project's sources, with nothing built."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in _FOLDERS:
            shutil.copytree(ROOT / name, folder / name, ignore=_MADE)
        for name in _FILES:
            shutil.copy(ROOT / name, folder)

    def source_archive(self, folder: Path) -> Path:
        """Write a source archive to a folder; return its path."""
        done = subprocess.run(
            [sys.executable, "-c", _BUILD_ARCHIVE, str(folder)],
            check=True,
            capture_output=True,
            text=True,
            cwd=self.folder,
        )
        return folder / done.stdout.splitlines()[-1]


class Environment:
    """A virtual environment that finds the packages of this one, but not the project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder, symlinks=True, with_pip=False)
        (own,) = folder.glob("lib/python3*/site-packages")
        # Folders that a .pth file names are searched, but .pth files in them (of an editable
        # installation) are not read.
        others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        (own / "others.pth").write_text("\n".join(others) + "\n", encoding="utf-8")

    def install(
        self, source: Path, *options: str, is_isolated: bool = False, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Install a project without its dependencies; the output includes that of the build."""
        isolation = [] if is_isolated else ["--no-build-isolation"]
        return self._pip(
            variables, "install", "--ignore-installed", *isolation, *options, str(source)
        )

    def wheel(
        self, source: Path, folder: Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Build a wheel and write it to a folder."""
        return self._pip(
            variables, "wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(source)
        )

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the installed command."""
        return subprocess.run(
            [str(self.folder / "bin" / "kanalyze"), *map(str, arguments)],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
        )

    def _pip(self, variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        python = str(self.folder / "bin" / "python")
        common = ["--python", python, "--disable-pip-version-check", "--no-input"]
        command, *rest = arguments
        return subprocess.run(
            [sys.executable, "-m", "pip", *common, command, "--verbose", "--no-deps", *rest],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=os.environ | variables,
        )


def interpreters() -> dict[tuple[int, int], str]:
    """Return every installed Python from 3.11 on, this one included: path by version."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(11, 20):
        path = shutil.which(f"python3.{minor}")
        if path is not None and (3, minor) not in found:
            answered = subprocess.run([path, "-c", ""], check=False, capture_output=True)
            if answered.returncode == 0:  # it can be run
                found[3, minor] = path
    return found
