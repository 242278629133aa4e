"""Rules for all modules: no import cycles, no class name twice, packages with a docstring."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import kanalyze

PACKAGE = Path(kanalyze.__file__).parent
MAX_METHODS = 20
OF_SAVING = {"_after_load", "_before_save"}
"""They are called by kanalyze/common/saved.py alone; a property with a setter is one method."""


@cache
def trees() -> dict[str, ast.Module]:
    """Each module, parsed, by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("kanalyze", *path.relative_to(PACKAGE).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text())
    return found


def classes() -> list[tuple[str, ast.ClassDef]]:
    return [
        (module, node)
        for module, tree in trees().items()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    ]


def imports_of(module: str) -> set[str]:
    """The modules of the package that a module imports: at its top, in functions, for types."""
    found = set()
    for node in ast.walk(trees()[module]):
        if isinstance(node, ast.ImportFrom) and node.module in trees():
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in trees() else node.module for name in inner}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & trees().keys()
    return found - {module, "kanalyze"}  # the package itself loads its names when they are used


def cycles(graph: dict[str, set[str]]) -> set[str]:
    """Names that lie on a cycle, or between two cycles."""
    left = {name: set(targets) for name, targets in graph.items()}
    while True:
        led_to = {target for targets in left.values() for target in targets}
        ends = [n for n, targets in left.items() if not targets & left.keys() or n not in led_to]
        if not ends:
            return set(left)
        for name in ends:
            del left[name]


def test_a_cycle_is_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"b", "c"}
    assert cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == set()


def test_imports_have_no_cycles() -> None:
    """Not in functions either, nor for types alone."""
    assert cycles({name: imports_of(name) for name in trees()}) == set()


def test_no_two_classes_have_the_same_name() -> None:
    names = Counter(node.name for _, node in classes())
    assert {name for name, count in names.items() if count > 1} == set()


def test_each_package_says_what_comes_in_what_goes_out_and_where_to_begin() -> None:
    packages = {path.parent for path in PACKAGE.rglob("__init__.py")} - {PACKAGE}
    assert len(packages) > 30
    for package in packages:
        name = ".".join(("kanalyze", *package.relative_to(PACKAGE).parts))
        text = " ".join((ast.get_docstring(trees()[name]) or "").split())
        missing = {"In: ", "Out: ", "Begin reading with"} - {
            words for words in ("In: ", "Out: ", "Begin reading with") if words in text
        }
        assert (name, missing) == (name, set())


def test_no_class_has_too_many_methods() -> None:
    sizes = {
        f"{module}.{node.name}": len(
            {each.name for each in node.body if isinstance(each, ast.FunctionDef)} - OF_SAVING
        )
        for module, node in classes()
    }
    assert {name: size for name, size in sizes.items() if size > MAX_METHODS} == {}


CONTRIBUTING = (PACKAGE.parent / "CONTRIBUTING.md").read_text("utf-8")


def test_every_file_named_for_contributors_exists() -> None:
    named = re.findall(r"`((?:kanalyze|tests|tools|benchmarks)/[\w/.]+\.\w+)`", CONTRIBUTING)
    assert len(named) > 40
    assert [name for name in named if not (PACKAGE.parent / name).exists()] == []


def test_every_term_of_the_glossary_names_an_existing_definition() -> None:
    named = set(re.findall(r"^\| [^|]+ \| [^|]+ \| `(\w+)` \|$", CONTRIBUTING, re.MULTILINE))
    known = {getattr(node, "name", "") for tree in trees().values() for node in tree.body}
    assert len(named) > 40
    assert named <= known


def files_named(text: str) -> set[str]:
    """The files that a text names; a file without a folder is in the folder of the one before."""
    found, folder = set(), ""
    for name in re.findall(r"`([\w/]+\.(?:py|sql))`", text):
        folder = name.rpartition("/")[0] or folder
        found.add(f"{folder}/{name.rpartition('/')[2]}")
    return found


def test_no_journey_takes_more_than_20_files() -> None:
    journeys = re.findall(
        r"^\*\*A[^*]+\*\* \((\d+)\)(.+?)\n\n", CONTRIBUTING, re.MULTILINE | re.DOTALL
    )
    assert len(journeys) == 3
    for count, text in journeys:
        files = files_named(text)
        assert len(files) == int(count) <= 20
        assert [name for name in files if not (PACKAGE.parent / name).exists()] == []


def test_files_that_the_docstring_of_a_package_names_are_in_it() -> None:
    named = [
        (path.parent, name)
        for path in PACKAGE.rglob("__init__.py")
        for name in re.findall(
            r"``(\w+\.py)``", ast.get_docstring(ast.parse(path.read_text())) or ""
        )
    ]
    assert len(named) > 10
    assert [(folder, name) for folder, name in named if not (folder / name).exists()] == []
