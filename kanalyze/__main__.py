"""``python -m kanalyze`` does the same as the command ``kanalyze``."""

from __future__ import annotations

from kanalyze.cli.main import run

if __name__ == "__main__":
    run()
