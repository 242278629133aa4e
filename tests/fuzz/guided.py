"""Runs a target under atheris, which chooses inputs by the code that they reach.

    python -m tests.fuzz.guided NAME [RUNS]

Only this file needs ``pip install atheris``. It is a program of its own, because the code to be
followed has to be imported through atheris. A finding is written to the current folder, as
libFuzzer does it; copy it to ``tests/fuzz/cases/NAME/``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def guide(name: str, runs: int) -> None:
    """Fuzz until a finding, an interrupt, or ``runs`` runs (-1: no end); end the process."""
    import atheris

    with atheris.instrument_imports(include=["kanalyze"]):
        from tests.fuzz.table import TARGETS
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(target.seeds()):
            (Path(folder) / str(number)).write_bytes(seed)
        options = [f"-max_len={target.most_bytes}", "-timeout=20", f"-runs={runs}"]
        atheris.Setup([sys.argv[0], *options, folder], target.run)
        atheris.Fuzz()


if __name__ == "__main__":
    guide(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else -1)
