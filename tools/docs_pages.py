"""The pages of the documentation: which there are, and parts of them that are made by code.

In: nothing. Out: paths, and text with a part replaced.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["DOCS", "ROOT", "between", "pages"]

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def pages() -> list[Path]:
    """Return README.md and every page of docs/, in the order of their names."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def between(text: str, marker: str, replacement: str) -> str:
    """Return the text with what stands between two marker lines replaced.

    Raises ValueError if a marker is missing.
    """
    begin, end = f"<!-- {marker} begins -->\n", f"<!-- {marker} ends -->\n"
    first = text.index(begin) + len(begin)
    return text[:first] + replacement + text[text.index(end, first) :]
