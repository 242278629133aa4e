"""Makes what code writes of the documentation again, and builds the site.

    python -m tools.docs                 outputs of commands, pages of the reference
    python -m tools.docs --check         writes nothing; status 1 if something would change
    python -m tools.docs --page PATH     outputs of one page alone
    python -m tools.docs --build FOLDER  the site, with Zensical: pip install 'kanalyze[docs]'

Read the diff. `tools/sample_reports.py` makes tables, findings and schemas, `tools/pictures.py`
the pictures, `tools/docs_install.py` the costs of an installation.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.docs_blocks import run_page
from tools.docs_pages import ROOT, pages, write_changed
from tools.docs_reference import reference_pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["build", "main", "outputs"]


def outputs(only: Sequence[Path] = ()) -> Iterator[tuple[Path, str]]:
    """Give pages and what is to be in them: those of the reference, then those with blocks."""
    if not only:
        yield from reference_pages().items()
    for page in only or pages():
        with tempfile.TemporaryDirectory() as folder:
            yield page, run_page(page, Path(folder))


def build(folder: Path) -> int:
    """Build the site into a folder and return the builder's status; warnings are errors."""
    program = shutil.which("zensical", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        print("no builder: pip install 'kanalyze[docs]'", file=sys.stderr)
        return 2
    # The builder writes into the folder of its settings, so it gets a copy.
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(ROOT / "docs", Path(copy) / "docs")
        shutil.copy(ROOT / "mkdocs.yml", copy)
        done = subprocess.run([program, "build", "--strict"], cwd=copy, check=False)
        if done.returncode == 0:
            shutil.copytree(Path(copy) / "site", folder, dirs_exist_ok=True)
    return done.returncode


def main() -> int:
    """Do what the arguments say; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--page", action="append", default=[], type=Path)
    parser.add_argument("--build", type=Path)
    arguments = parser.parse_args()
    if arguments.build:
        return build(arguments.build)
    only = [page.resolve() for page in arguments.page]
    return write_changed(outputs(only), only_checks=arguments.check)


if __name__ == "__main__":
    sys.exit(main())
