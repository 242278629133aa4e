"""``python -m kanalyze``: what the command does."""

from __future__ import annotations

from kanalyze.cli.main import run

if __name__ == "__main__":
    run()
