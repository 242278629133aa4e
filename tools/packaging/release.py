"""Builds what is released, and tries it: a source archive, and one wheel for every Python.

    python3.11 -m pip install '.[release]'
    python3.11 tools/packaging/release.py dist [PYTHON ...]

In: the sources, and interpreters (by default every Python that is in PATH, from 3.11 on). Out: the
source archive and the wheel in a new folder, and a line for each interpreter. The wheel is built
from the archive, so the archive is complete. `twine check` reads both; then the wheel is installed
into an empty environment of each interpreter, where it has to write a report. The first command
that fails ends the program. Nothing is published.

Python 3.11 has to build it: setup.py says why. It calls a C compiler for some minutes. On Linux
the wheel runs with the C library that `auditwheel` finds it needs; for older ones, build with
cibuildwheel (see ``pyproject.toml``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "captures" / "basics.pcap"
_FIRST_MINOR, _LAST_MINOR = 11, 14
_MEGABYTE = 1_000_000


def main(argv: list[str]) -> int:
    """Build and try; return the exit status."""
    made = argparse.ArgumentParser(prog="release.py", description=(__doc__ or "").split("\n")[0])
    made.add_argument("folder", type=Path, help="a new folder, for the archive and the wheel")
    made.add_argument("pythons", nargs="*", metavar="PYTHON", help="interpreters (default: PATH)")
    arguments = made.parse_args(argv)
    pythons = arguments.pythons or interpreters()
    arguments.folder.mkdir(parents=True)
    folder = arguments.folder.resolve()
    archive, wheel = build(folder)
    _run([sys.executable, "-m", "twine", "check", "--strict", str(archive), str(wheel)])
    for path in (archive, wheel):
        print(f"{path.name}: {path.stat().st_size / _MEGABYTE:.1f} MB")
    for python in pythons:
        print(try_wheel(wheel, python), flush=True)
    return 0


def interpreters() -> list[str]:
    """Return every Python from 3.11 on that is in PATH and runs."""
    names = [f"python3.{minor}" for minor in range(_FIRST_MINOR, _LAST_MINOR + 1)]
    paths = [path for path in map(shutil.which, names) if path is not None]
    # Some are only the name of one.
    return [path for path in paths if subprocess.run([path, "-c", ""], check=False).returncode == 0]


def build(folder: Path) -> tuple[Path, Path]:
    """Write the source archive, and a wheel of it; return both."""
    variables = {"KANALYZE_ABI3": "1", "KANALYZE_REQUIRE_COMPILED": "1"}
    _run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], **variables)
    [archive], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    if sys.platform != "linux":
        return archive, wheel
    # What the wheel is called says which C library it needs; nothing is added to it.
    repaired = folder / "repaired"
    _run([sys.executable, "-m", "auditwheel", "repair", "-w", str(repaired), str(wheel)])
    wheel.unlink()
    [better] = repaired.glob("*.whl")
    moved = better.replace(folder / better.name)
    repaired.rmdir()
    return archive, moved


def try_wheel(wheel: Path, python: str) -> str:
    """Install the wheel into an empty environment and write a report; return a line about it.

    Nothing of the sources is found there.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "environment")
        _run([python, "-m", "venv", str(folder)])
        before = _size(folder)
        _run([str(folder / "bin" / "pip"), "install", "--quiet", str(wheel)])
        installed = _size(folder) - before
        program = str(folder / "bin" / "kanalyze")
        version = _run([program, "--version"], cwd=name)
        assert "(compiled)" in version, version
        began = time.perf_counter()
        report = _run([program, "report", str(CAPTURE)], cwd=name)
        seconds = time.perf_counter() - began
    assert "309 requests" in report, report
    size = f"{installed / _MEGABYTE:.0f} MB installed"
    return f"{version.strip()}: {size}, a report in {seconds:.1f} s"


def _size(folder: Path) -> int:
    """Return the bytes of all files, without the bytecode that Python writes."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sum(path.stat().st_size for path in files)


def _run(command: list[str], cwd: str | None = None, **variables: str) -> str:
    """Run a command and return its output; a failure shows all of it and ends the program."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env={**kept, **variables},
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\n{' '.join(command)}: status {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
