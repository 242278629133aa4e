"""Environments with what an installation of a wheel brings, and nothing else.

pip would take ten seconds for each. So each package that the wheel requires, directly or not, is
linked from the environment that runs the tests: a module of another package cannot be imported, as
after ``pip install``.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import venv
from importlib.metadata import (
    Distribution,
    PathDistribution,
    distribution,
    packages_distributions,
)
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from tests.support import every_command
from tests.support.captures import ROOT
from tests.support.every_command import Line, Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOT_FOR_USERS = {"test", "dev", "docs", "release"}


def make_wheel(folder: Path) -> Path:
    """Build a wheel of the modules that were compiled in place; return its path.

    Nothing is compiled again: a module as new as its source is taken as it is.
    """
    compiled = folder / "lib"
    for module in (ROOT / "kanalyze").rglob("*.so"):
        copy = compiled / module.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(module, copy)
    command = [sys.executable, "setup.py", "-q"]
    build = ["build", "--build-lib", str(compiled), "--build-temp", str(folder / "temp")]
    wheel = ["bdist_wheel", "--bdist-dir", str(folder / "wheel"), "-d", str(folder / "dist")]
    required = {"KANALYZE_REQUIRE_COMPILED": "1"}
    built = subprocess.run(
        [*command, *build, *wheel],
        check=False,
        cwd=ROOT,
        env=os.environ | required,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert built.returncode == 0, built.stdout
    (made,) = (folder / "dist").glob("*.whl")
    return made


def install(wheel: Path, folder: Path) -> PathDistribution:
    """Install a wheel into a folder, without what it requires; return what was installed."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-compile", "--target", str(folder), str(wheel)], check=True)
    (metadata,) = folder.glob("kanalyze-*.dist-info")
    return PathDistribution(metadata)


def extras_of(wheel: Distribution) -> list[str]:
    """Return the extras of kanalyze that are for users."""
    return sorted(set(wheel.metadata.get_all("Provides-Extra") or ()) - NOT_FOR_USERS)


class CleanEnvironment:
    """A virtual environment with an installed wheel, some of its extras, and what these require."""

    def __init__(self, folder: Path, wheel: Distribution, extras: Sequence[str]) -> None:
        self.folder = folder
        venv.create(folder, symlinks=True, with_pip=False)
        (own,) = folder.glob("lib/python3*/site-packages")
        for package in _required(wheel, extras):
            _link(package, own)

    def run(self, lines: Iterable[Line]) -> list[Result]:
        """Run command lines of kanalyze in one process of this environment."""
        given, taken = self.folder / "lines.json", self.folder / "results.json"
        given.write_text(json.dumps(list(lines)), encoding="utf-8")
        program = [str(self.folder / "bin" / "python"), "-I", every_command.__file__]
        subprocess.run([*program, str(given), str(taken)], check=True, cwd=self.folder)
        return [Result(*result) for result in json.loads(taken.read_text(encoding="utf-8"))]


def _required(wheel: Distribution, extras: Sequence[str]) -> list[Distribution]:
    """Return a package and all that it requires, each once."""
    found: dict[tuple[str, str], Distribution] = {}
    todo = [(wheel, extra) for extra in ("", *extras)]
    while todo:
        package, extra = todo.pop()
        key = package.metadata["Name"].lower(), extra
        if key in found:
            continue
        found[key] = package
        for text in package.requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or marker.evaluate({"extra": extra}):
                # An extra of kanalyze may name others of its own.
                is_own = requirement.name == wheel.metadata["Name"]
                next_package = wheel if is_own else distribution(requirement.name)
                todo += [(next_package, other) for other in ("", *requirement.extras)]
    return list({name: package for (name, _extra), package in found.items()}.values())


def _link(package: Distribution, folder: Path) -> None:
    """Link a package's modules, data and metadata: no commands.

    A folder is linked as a whole, unless it is shared with other packages.
    """
    owners = _owners()
    linked = set()
    for file in package.files or ():
        top = file.parts[0]
        if top in ("..", "__pycache__") or Path(file).is_absolute() or top in linked:
            continue
        is_own = len(file.parts) > 1 and len(owners.get(top, ())) <= 1
        if is_own:
            linked.add(top)
        part = Path(top) if is_own else Path(file)
        link = folder / part
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path(str(package.locate_file(str(part)))).resolve())


@functools.cache
def _owners() -> dict[str, set[str]]:
    """Return the packages in this environment that have files in each folder."""
    return {top: set(names) for top, names in packages_distributions().items()}
