"""The pages of the documentation: which there are, and parts of them that are made by code.

In: nothing. Out: paths, and text with a part replaced.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["DOCS", "ROOT", "between", "pages", "write_changed"]

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


def write_changed(
    made: Iterable[tuple[Path, str]],
    *,
    only_checks: bool,
    canonical: Callable[[str], str] = str,
) -> int:
    """Write each file whose text has changed, or only say which; return the exit status.

    ``canonical`` returns of a text what is compared.
    """
    changed = []
    for path, text in made:
        if path.exists() and canonical(path.read_text(encoding="utf-8")) == canonical(text):
            continue
        changed.append(path)
        if not only_checks:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in changed:
        print(("would change " if only_checks else "wrote ") + str(path.relative_to(ROOT)))
    return 1 if only_checks and changed else 0
