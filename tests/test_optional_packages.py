"""Packages that are not installed: who needs one says so in one line, and nothing else needs it.

The import of a compiled module imports the modules of its types, whatever its source imports late.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import kanalyze
from kanalyze.cli.main import main, text_of_missing_package
from tests.support import tls_captures
from tests.support.captures import ROOT, path
from tests.support.uncompiled import compiled_modules

PACKAGE = Path(kanalyze.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_DEVELOPERS = {"test", "dev", "docs", "release"}
SMALL_DEPENDENCY = "crc32c"
"""One module of C; what reads records needs it."""
_CIMPORT = re.compile(r"^from (kanalyze[\w.]+) cimport", re.MULTILINE)
IMPORT_ALL = """\
import importlib, sys
missing, names = sys.argv[1].split(","), sys.argv[2].split(",")
sys.modules.update(dict.fromkeys(missing))
for name in names:
    importlib.import_module(name)
"""
WITHOUT = """\
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
from kanalyze.cli.main import run
run()
"""


def names_in(requirements: list[str]) -> set[str]:
    return {re.split(r"[ ><=;\[]", requirement)[0] for requirement in requirements}


def imported_names(requirements: list[str]) -> set[str]:
    own = {
        "protobuf": "google",
        "grpcio-tools": "grpc_tools",
        "opentelemetry-proto": "opentelemetry",
    }
    return {own.get(name, name.replace("-", "_")) for name in names_in(requirements)}


@cache
def optional_packages() -> frozenset[str]:
    """The modules of the extras for users, as they are imported."""
    extras = PROJECT["optional-dependencies"]
    wanted = {
        name for extra in extras.keys() - FOR_DEVELOPERS for name in imported_names(extras[extra])
    }
    return frozenset(wanted - names_in(PROJECT["dependencies"]))


def source_of(module: str) -> Path:
    file = PACKAGE.parent / Path(*module.split("."))
    return file.with_suffix(".py") if file.with_suffix(".py").exists() else file / "__init__.py"


def imported_at_the_head(module: str) -> set[str]:
    """What the import of a source imports: not what is in functions, or for types."""
    found = set()
    nodes: list[ast.AST] = list(ast.parse(source_of(module).read_text(encoding="utf-8")).body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            nodes += node.orelse
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes += ast.iter_child_nodes(node)
    return found


def types_of(module: str) -> set[str]:
    """The modules whose types a module uses, if it is compiled."""
    types = source_of(module).with_suffix(".pxd")
    return set(_CIMPORT.findall(types.read_text(encoding="utf-8"))) if types.exists() else set()


@cache
def is_ours(name: str) -> bool:
    return name.partition(".")[0] == "kanalyze" and source_of(name).exists()


def loaded_with(module: str) -> set[str]:
    """All that the import of a module imports, compiled or not."""
    found, left = set[str](), {module}
    while left:
        name = left.pop()
        found.add(name)
        if is_ours(name):
            left |= (imported_at_the_head(name) | types_of(name)) - found
    return found


def test_what_a_compiled_module_takes_types_from_needs_no_package() -> None:
    """Neither an optional one nor a large one, which would be loaded with every capture."""
    sources = {source for module in compiled_modules() for source in types_of(module)}
    assert len(sources) > 20
    allowed = {"kanalyze", "cython", SMALL_DEPENDENCY, *sys.stdlib_module_names}
    others = {
        (source, name)
        for source in sources
        for name in loaded_with(source)
        if name.partition(".")[0] not in allowed
    }
    assert others == set()


def test_compiled_modules_are_imported_without_the_extras() -> None:
    """All of them: what needs an extra imports it where it is needed."""
    names = set(compiled_modules())
    missing = ",".join(sorted(optional_packages()))
    assert "cryptography" in missing
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, missing, ",".join(sorted(names))],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def run_without_extras(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process in which no package of an extra can be imported."""
    missing = ",".join(sorted(optional_packages()))
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, missing, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


def test_a_key_log_asks_for_the_extra_only_where_a_secret_fits(tmp_path: Path) -> None:
    capture, keys = tls_captures.path("tls13-sasl"), tls_captures.keylog("tls13-sasl")
    done = run_without_extras("requests", capture, "--keylog", keys)
    assert (done.returncode, done.stdout) == (2, "")
    text = "kanalyze: decryption needs cryptography: pip install 'kanalyze[tls]'"
    assert done.stderr.splitlines() == [text]
    # Secrets of other connections, and a capture without TLS.
    for other in (tls_captures.path("tls12-mutual"), path("basics")):
        done = run_without_extras("connections", other, "--keylog", keys)
        assert done.returncode == 0
        assert "cryptography" not in done.stderr


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("package", "argv"),
    [
        ("duckdb", ["report", "codecs"]),
        ("pyarrow", ["report", "codecs"]),
        ("pyarrow", ["requests", "codecs", "-o", "{folder}/rows.parquet"]),
        ("duckdb", ["report", "codecs", "--jobs", "2"]),
        ("numpy", ["anonymize", "codecs", "-o", "{folder}/shared.pcapng"]),
        ("crc32c", ["records", "codecs"]),
        ("lz4", ["records", "codecs", "--values"]),
        ("rich", ["compare", "basics", "codecs"]),
    ],
)
def test_a_command_says_what_to_install_in_one_line(
    package: str, argv: list[str], tmp_path: Path
) -> None:
    words = [
        str(path(word)) if word in ("basics", "codecs") else word.format(folder=tmp_path)
        for word in argv
    ]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, package, *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("kanalyze: ")
    assert package in line
    assert re.search(rf": pip install '?{re.escape(package)}'?$", line)


def test_a_missing_module_of_kanalyze_is_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kanalyze.cli.protocol", None)
    with pytest.raises(ModuleNotFoundError, match=r"kanalyze\.cli\.protocol"):
        main(["protocol", "Fetch"])


@pytest.mark.parametrize("package", sorted(names_in(PROJECT["dependencies"])))
def test_the_message_names_the_missing_dependency(package: str) -> None:
    text = text_of_missing_package(ModuleNotFoundError(name=package))
    assert text is not None
    assert text.endswith(f" is not installed: pip install {package}")


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"].keys() - FOR_DEVELOPERS))
def test_the_message_names_an_extra_with_the_missing_package(extra: str) -> None:
    for package in imported_names(PROJECT["optional-dependencies"][extra]):
        text = text_of_missing_package(ModuleNotFoundError(name=package))
        assert text is not None
        match = re.search(r"pip install 'kanalyze\[(\w+)\]'$", text)
        assert match is not None
        assert package in imported_names(PROJECT["optional-dependencies"][match[1]])
