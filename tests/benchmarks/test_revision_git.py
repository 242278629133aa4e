from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import kanalyze
from benchmarks import revision
from benchmarks.errors import BenchmarkError
from benchmarks.revision import rooms, stamp
from tests.benchmarks.test_revision import write_tree

COMMIT = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "one")


def git(tree: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(tree), *words], check=True)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a package, in place of ours."""
    write_tree(tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, *COMMIT)
    monkeypatch.setattr(revision, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("KANALYZE_PURE", raising=False)
    return tmp_path


def test_a_stamp_is_of_a_revision(tree: Path) -> None:
    made = stamp()
    assert made.rooms == rooms()
    (tree / "README.md").write_text("other words\n")
    assert (stamp().revision, stamp().rooms) == (made.revision, made.rooms)


@pytest.mark.parametrize("name", ["kanalyze/net/new.py", "kanalyze/net/scan.py", "setup.py"])
def test_what_is_no_revision_is_not_measured(name: str, tree: Path) -> None:
    (tree / name).write_text("x = 3\n")
    with pytest.raises(BenchmarkError, match=f"commit first: {name}"):
        stamp()


def test_what_is_compiled_from_no_source_is_not_measured(tree: Path) -> None:
    (tree / "kanalyze" / "net" / "scan.cpython-311.so").touch()
    stamp()
    (tree / "kanalyze" / "net" / "gone.cpython-311.so").touch()
    with pytest.raises(BenchmarkError, match=r"delete kanalyze/net/gone\.cpython-311\.so"):
        stamp()


def test_what_cannot_be_compiled_is_not_measured(tree: Path) -> None:
    (tree / "setup.py").write_text("raise SystemExit('no compiler')\n")
    git(tree, *COMMIT)
    with pytest.raises(BenchmarkError, match=r"exit 1: .*: no compiler"):
        stamp()


def test_what_runs_uncompiled_is_not_measured(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stamp().rooms == rooms(), tree
    monkeypatch.setenv("KANALYZE_PURE", "1")
    with pytest.raises(BenchmarkError, match="KANALYZE_PURE=1 is set"):
        stamp()


def test_a_package_from_elsewhere_is_not_measured(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(kanalyze.__file__).parent.parent))
    with pytest.raises(BenchmarkError, match=f"is not this code: pip install -e {tree}"):
        stamp()
