"""Builds one file to copy to a machine without pip: kanalyze, compiled, with all that it needs.

    pip install '.[release]'
    python -m tools.packaging.onefile kanalyze.pyz [--wheel WHEEL]

In: a wheel of kanalyze, which `tools/packaging/release.py` builds if none is given. Out: an archive
that shiv makes, which the Python that built it can start, on the same platform. It is unpacked at
its first start, into `~/.shiv` or the folder of `SHIV_ROOT`.

Why shiv: pex was 112 MB where shiv was 111, and took twice the processor time for the first start
(6.6 s, 2.8 s). PyInstaller would bring Python too, but its one file is unpacked at every start.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.packaging.release import build

UNUSED = (
    *("pyarrow/include", "pyarrow/src", "pyarrow/tests"),
    *("pyarrow/libarrow_flight*", "pyarrow/_flight*", "pyarrow/libarrow_python_flight*"),
    "pyarrow/libarrow_python.so",
    *("numpy/tests", "numpy/*/tests", "bin", "**/__pycache__", "kanalyze/**/*.c"),
)
"""What no command imports: a sixth of what is installed."""


def main(argv: list[str]) -> int:
    """Build the file; return the exit status."""
    made = argparse.ArgumentParser(prog="onefile", description=(__doc__ or "").split("\n")[0])
    made.add_argument("file", type=Path, help="the file to write, such as kanalyze.pyz")
    made.add_argument("--wheel", type=Path, help="a wheel of kanalyze (default: of the sources)")
    arguments = made.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = arguments.wheel or build(folder)[1]
        packages = folder / "packages"
        install = ["install", "--quiet", "--target", str(packages), f"{wheel}[live]"]
        subprocess.run([sys.executable, "-m", "pip", *install], check=True)
        pack(packages, arguments.file)
    print(f"{arguments.file}: {arguments.file.stat().st_size / 1e6:.0f} MB")
    return 0


def pack(packages: Path, file: Path) -> None:
    """Write the file; ``packages`` is a folder of installed packages, which loses those unused."""
    for pattern in UNUSED:
        for path in [*packages.glob(pattern)]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    # Packages are compiled for this Python: another one shall not start the file.
    python = f"/usr/bin/env python{sys.version_info.major}.{sys.version_info.minor}"
    options = ["--console-script", "kanalyze", "--compressed", "--python", python]
    folders = ["--site-packages", str(packages), "--output-file", str(file)]
    subprocess.run([sys.executable, "-m", "shiv", *options, *folders], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
