"""What a wheel has for shells: the manual page, and the completion of arguments.

In: the sources of the program. Out: files below ``share/``, where ``man`` and shells look for them.
They are written when a wheel is built, from the parser, so none is in the repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# isort: off
import setuptools  # noqa: F401  # it has the distutils that Python has no more
from distutils.command.install_data import install_data

# isort: on

__all__ = ["FILES", "InstallShellFiles"]

ROOT = Path(__file__).resolve().parents[2]

FILES = {
    "share/man/man1/kanalyze.1": ("tools/packaging/man_page.py",),
    "share/bash-completion/completions/kanalyze": ("-m", "kanalyze", "completion", "bash"),
    "share/zsh/site-functions/_kanalyze": ("-m", "kanalyze", "completion", "zsh"),
    "share/fish/vendor_completions.d/kanalyze.fish": ("-m", "kanalyze", "completion", "fish"),
}
"""Each file, and the arguments of Python that write it to standard output.

None of these commands imports anything that a build has not.
"""


class InstallShellFiles(install_data):
    """Writes the files in place of copying them."""

    def run(self) -> None:
        """Write all files below the folder for data; an error ends the build."""
        # Each is a start of Python: at once they take half as long.
        with ThreadPoolExecutor() as threads:
            outputs = threads.map(_output, FILES.values())
            for name, output in zip(FILES, outputs, strict=True):
                path = Path(self.install_dir, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(output)
                self.outfiles.append(str(path))


def _output(arguments: tuple[str, ...]) -> bytes:
    """Return what a command of the sources writes."""
    # The sources are not installed, and what was compiled beside them may be for another Python.
    # What a build requires is in a place that only this process is told of.
    places = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": places, "KANALYZE_PURE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment,
    )
    return done.stdout
