"""The README as the page of the package: without links to files that are not there.

In: the README's Markdown. Out: Markdown that stands by itself. The project has no public address
that links could begin with, so a link to a file becomes its text and the file's path.
"""

from __future__ import annotations

import re

__all__ = ["package_page"]

_IMAGE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]*\)")
_LINKED_IMAGE = re.compile(r"\[(!\[[^\]]*\]\([^)]*\))\]\((?!https?:)[^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:)([^)]*)\)")
_MARKER = re.compile(r"^<!--.*-->\n", re.MULTILINE)
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def package_page(readme: str) -> str:
    """Return the README without links to files, images of files, and markers of tests.

    Blocks of code stay as they are.
    """
    parts = _FENCED.split(readme)
    parts[::2] = map(_without_files, parts[::2])
    return "".join(parts)


def _without_files(text: str) -> str:
    text = _IMAGE.sub("", _LINKED_IMAGE.sub(r"\1", _MARKER.sub("", text)))
    return _LINK.sub(_told, text)


def _told(link: re.Match[str]) -> str:
    """Return the text of a link, and the path of its file if the text is not that."""
    text, path = link[1], link[2].partition("#")[0]
    return text if not path or text.strip("`") == path else f"{text} (`{path}`)"
