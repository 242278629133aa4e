from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kanalyze
from benchmarks import revision
from benchmarks.revision import BUILD, PACKAGE, Stamp, code_of, rooms

SOURCES = sorted(Path(kanalyze.__file__).parent.rglob("*.py"))


def other_words(source: str) -> str:
    """The module with all its docstrings replaced, found by its syntax tree, and with comments."""
    lines = source.split("\n")
    texts = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    for node in sorted(texts, key=lambda node: -node.lineno):
        assert node.end_lineno is not None
        text = " " * node.col_offset + '"""Other words."""'
        lines[node.lineno - 1 : node.end_lineno] = [text, "", "# and a comment"]
    return "\n".join(lines)


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.long)])
def test_the_code_of_a_module_is_without_its_words(step: int) -> None:
    for file in SOURCES[::step]:
        source = file.read_text()
        other = other_words(source)
        assert other != source, file
        assert code_of(other) == code_of(source), file
        assert code_of(f"{source}\nx = 1\n") != code_of(source), file


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1\n", "x = 2\n"),
        ("f('''a''')\n", "f('''b''')\n"),
        ("x = 'a # b'\n", "x = 'a # c'\n"),
        ("x = f'{a} # b'\n", "x = f'{a} # c'\n"),
        ("if a:\n    b()\nc()\n", "if a:\n    b()\n    c()\n"),
        ("'''a'''.b()\n", "'''c'''.b()\n"),
    ],
)
def test_a_change_of_code_is_seen(before: str, after: str) -> None:
    assert code_of(before) != code_of(after)


def write_tree(folder: Path) -> None:
    """Write a package of two rooms, and what compiles it."""
    for name, text in (
        ("kanalyze/net/scan.py", "x = 1  # one\n"),
        ("kanalyze/net/scan.pxd", "cdef int x\n"),
        ("kanalyze/queries/one.sql", "SELECT 1\n"),
        ("kanalyze/__init__.py", "y = 1\n"),
        ("kanalyze/version.py", "__version__ = '1'\n"),
        ("setup.py", "import sys\n"),
        (".gitignore", "*.so\n__pycache__/\n"),
        ("README.md", "words\n"),
    ):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in place of ours."""
    write_tree(tmp_path)
    monkeypatch.setattr(revision, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("kanalyze/net/scan.py", "x = 1  # uno\n", []),
        ("kanalyze/net/scan.py", "x = 2  # one\n", ["net"]),
        ("kanalyze/net/scan.pxd", "cdef long x\n", ["net"]),
        ("kanalyze/net/more.py", "", ["net"]),
        ("kanalyze/net/scan.so", "made", []),
        ("kanalyze/queries/one.sql", "SELECT 2\n", ["queries"]),
        ("kanalyze/__init__.py", "y = 2\n", [PACKAGE]),
        ("kanalyze/version.py", "__version__ = '2'\n", []),
        ("kanalyze/new/one.py", "z = 1\n", ["new"]),
        ("setup.py", "import os\n", [BUILD]),
        ("README.md", "other words\n", []),
    ],
)
def test_what_has_changed_is_told_by_room(
    name: str, text: str, expected: list[str], tree: Path
) -> None:
    measured = Stamp("1", "2026-11-28", rooms())
    assert set(measured.rooms) == {"net", "queries", PACKAGE, BUILD}
    file = tree / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert measured.changed(rooms()) == expected
    assert measured.changed(rooms(), ["queries"]) == [r for r in expected if r == "queries"]
