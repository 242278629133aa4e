"""Which code a figure is of, and what of that code has changed since.

A figure carries a :class:`Stamp`: the revision, and a hash of the code of each room, which is a
folder of `kanalyze/`, what lies beside the folders, or how all is compiled. A commit that changes
no code of the rooms that a command imports leaves its figures as they are; comments and docstrings
are no code. Hashes are of files, not of commits: they say the same in a copy of the source without
git, and of a change that is not committed yet.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tokenize
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.errors import BenchmarkError, output_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, BUILD = "kanalyze", "how it is compiled"
"""Rooms that are no folders: what lies beside the folders of the package, and that."""
_CODE = (PACKAGE, "setup.py")
_MADE = (".c", ".so", ".pyd", ".pyc")
_WHERE = "import kanalyze; print(kanalyze.__file__)"
_SHARED = "_cyutility"
"""Cython makes its source too."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What was measured."""

    revision: str
    date: str
    rooms: dict[str, str]
    """A hash of the code of each room."""

    def changed(self, now: Mapping[str, str], among: Collection[str] | None = None) -> list[str]:
        """Return which rooms are not what they were; ``among`` are those that matter, or all."""
        of_interest = self.rooms.keys() | now.keys() if among is None else among
        return sorted(room for room in of_interest if self.rooms.get(room) != now.get(room))


def stamp() -> Stamp:
    """Return what would be measured now; compile what is not compiled as it is.

    Raises:
        BenchmarkError: there are changes that are no revision yet, compiled modules without a
            source, or one that cannot be compiled; or what would run is something else.
    """
    if os.environ.get("KANALYZE_PURE") == "1":
        raise BenchmarkError("KANALYZE_PURE=1 is set: figures are of compiled code")
    changes = _git("status", "--porcelain", "--", *_CODE).splitlines()
    if changes:
        raise BenchmarkError(f"commit first: {changes[0][3:]} is as in no revision")
    build = (sys.executable, "setup.py", "build_ext", "--inplace")
    output_of("env", "KANALYZE_REQUIRE_COMPILED=1", *build, folder=ROOT)
    for file in (ROOT / PACKAGE).rglob("*.so"):
        module = file.name.partition(".")[0]
        if module != _SHARED and not file.with_name(f"{module}.pxd").exists():
            raise BenchmarkError(f"delete {file.relative_to(ROOT)}: its source is not compiled")
    # Where commands begin: here, Python would take the package of this folder.
    where = output_of(sys.executable, "-c", _WHERE, folder=Path(sys.executable).parent).strip()
    if Path(where).parent != ROOT / PACKAGE:
        raise BenchmarkError(f"{where} is not this code: pip install -e {ROOT}")
    revision = _git("rev-parse", "--short=10", "HEAD").strip()
    return Stamp(revision, datetime.now(UTC).date().isoformat(), rooms())


def rooms() -> dict[str, str]:
    """Return a hash of the code of each room."""
    hashes = {}
    for name, file in sorted((file.relative_to(ROOT).as_posix(), file) for file in _sources()):
        hash_ = hashes.setdefault(room_of(name), hashlib.sha256())
        content = file.read_bytes()
        if file.suffix == ".py":
            content = code_of(content.decode()).encode()
        hash_.update(f"{name}\0{len(content)}\0".encode() + content)
    return {room: hash_.hexdigest()[:16] for room, hash_ in hashes.items()}


def room_of(name: str) -> str:
    """Return the room of a file, by its path from the root."""
    first, *rest = name.split("/")
    if first != PACKAGE:
        return BUILD
    return rest[0] if len(rest) > 1 else PACKAGE


def code_of(source: str) -> str:
    """Return a module without its comments, docstrings and empty lines."""
    lines = source.split("\n")
    begins_statement = True
    for token, after in pairwise(tokenize.generate_tokens(io.StringIO(source).readline)):
        is_text = begins_statement and token.type == tokenize.STRING
        if token.type == tokenize.COMMENT or (is_text and after.type == tokenize.NEWLINE):
            _cut(lines, token)
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins_statement = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _cut(lines: list[str], token: tokenize.TokenInfo) -> None:
    """Take a token that ends its line out of the lines of its module."""
    (first, begin), (last, end) = token.start, token.end
    rest = lines[last - 1][end:]
    lines[first - 1 : last] = [lines[first - 1][:begin] + rest, *[""] * (last - first)]


def _sources() -> Iterator[Path]:
    for file in (*(ROOT / PACKAGE).rglob("*"), ROOT / "setup.py"):
        if file.is_file() and file.suffix not in _MADE and file != ROOT / PACKAGE / "version.py":
            yield file  # the version changes with each release, and no figure does


def _git(*words: str) -> str:
    return output_of("git", "-C", str(ROOT), *words)
