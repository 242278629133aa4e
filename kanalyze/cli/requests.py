"""``kanalyze requests``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.cli.analyze import analysis_of
from kanalyze.cli.output import write_requests

if TYPE_CHECKING:
    import argparse

__all__ = ["requests"]


def requests(arguments: argparse.Namespace) -> None:
    """Write one row per request; raises KanalyzeError and OSError."""
    write_requests(arguments, analysis_of(arguments))
