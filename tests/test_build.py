"""The build: which modules are compiled, with which compiler, and what is installed without one.

The long tests install copies of the project; :mod:`tests.support.installing` does that.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
import setuptools
from setuptools.errors import BaseError

from kanalyze.common.compiled import cython
from tests.support.captures import ROOT
from tests.support.cases import for_each
from tests.support.installing import Environment, Project, interpreters
from tests.support.uncompiled import compiled_modules

if TYPE_CHECKING:
    from collections.abc import Callable

BASICS = ROOT / "captures" / "basics.pcap"
SLOWLY = "kanalyze: not compiled, so it is slow; install a wheel, or build it with a C compiler"
MOST_LINES_OF_C = 1_050_000
"""They are what an installation takes its time for: this is to become less."""
HEADERLESS_CC = """#!/bin/sh
for argument; do
    shift
    case "$argument" in -I*/python3*) ;; *) set -- "$@" "$argument" ;; esac
done
exec cc "$@"
"""
PICKY_CC = """#!/bin/sh
case "$*" in *machine.c*) echo "not this one" >&2; exit 1 ;; esac
exec cc "$@"
"""
FILES_FOR_SHELLS = (
    "share/man/man1/kanalyze.1",
    "share/bash-completion/completions/kanalyze",
    "share/zsh/site-functions/_kanalyze",
    "share/fish/vendor_completions.d/kanalyze.fish",
)
USE_UNCOMPILED = """
import importlib, sys
sys.modules["cython"] = sys.modules["Cython"] = None
from kanalyze.common.compiled import cython
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    assert module.__file__.endswith(".py"), module.__file__
    assert getattr(module, "cython", cython) is cython
"""
BUILD = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
sys.argv[:1] = []
sys.path.insert(0, "tools/packaging")
import backend
runpy.run_path("setup.py", run_name="__main__")
"""
DECODE = """
from kanalyze.common.compiled import is_compiled
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.codec import machine
from kanalyze.kafka.codec.compiler import compile_decoder
from kanalyze.kafka.codec.compiler import Projection
assert is_compiled()
assert machine.__file__.endswith(".abi3.so"), machine.__file__
decode = compile_decoder(Catalog().message(18, "response"), 0, Projection.ALL)
read = decode(bytes.fromhex("0000 00000001 0003 0000 000c"), 0)
api = {"apiKey": 3, "minVersion": 0, "maxVersion": 12}
assert read == ({"errorCode": 0, "apiKeys": [api]}, 12), read
import sys
import kanalyze
for _ in range(3):  # a reference that is not counted ends the process sooner or later
    rows = sum(1 for _ in kanalyze.requests(sys.argv[1]))
    assert rows == 309, rows
"""


@pytest.fixture(autouse=True)
def no_build_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove build settings from the environment of the test."""
    for name in [*os.environ]:
        if name.startswith("KANALYZE_") or name in ("CC", "LDSHARED", "PYTHONPATH"):
            monkeypatch.delenv(name)


# -- the backend ----------------------------------------------------------------------------------


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The backend as on Linux with an empty PATH, where setuptools requires only ``theirs``."""
    from tools.packaging import backend as module

    for kind in ("wheel", "editable"):
        name = f"get_requires_for_build_{kind}"
        monkeypatch.setattr(module.build_meta, name, lambda _settings: ["theirs"])
    monkeypatch.setattr(module.sys, "platform", "linux")
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", str(tmp_path))
    return module


def requirements(backend: ModuleType) -> list[str]:
    wheel: list[str] = backend.get_requires_for_build_wheel(None)
    assert backend.get_requires_for_build_editable(None) == wheel
    assert wheel[0] == "theirs"
    return wheel[1:]


def put_compiler(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("of_python", "programs", "machine", "variables", "is_required"),
    [
        ("cc", [], "x86_64", {}, True),
        ("some-cc -pthread", [], "x86_64", {}, True),
        ("some-cc -pthread", ["some-cc"], "x86_64", {}, False),
        ("some-cc", ["some-cc"], "x86_64", {"CC": "'other cc' -m64"}, True),
        ("some-cc", ["other cc"], "x86_64", {"CC": "'other cc' -m64"}, False),
        ("cc", [], "x86_64", {"KANALYZE_PURE": "1"}, False),
        # A requirement that no wheel meets would make the installation fail.
        ("cc", [], "sparc64", {}, False),
    ],
)
def test_a_compiler_is_required_where_there_is_none(
    backend: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    of_python: str,
    programs: list[str],
    machine: str,
    variables: dict[str, str],
    is_required: bool,
) -> None:
    monkeypatch.setattr(backend.sysconfig, "get_config_var", {"CC": of_python}.get)
    monkeypatch.setattr(backend.platform, "machine", lambda: machine)
    for name in programs:
        put_compiler(tmp_path, name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = requirements(backend)
    assert [each.partition(">=")[0] for each in found] == ["ziglang"] * is_required


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_the_required_compiler_builds_for_any_processor(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    seen: dict[str, str] = {}
    monkeypatch.setattr(backend, "find_spec", lambda _name: object())
    monkeypatch.setattr(sys, "executable", "/a folder/python")
    for name in ("CC", "LDSHARED"):
        monkeypatch.setenv(name, "")  # so that it is reset after the test
    monkeypatch.setattr(
        backend.build_meta, f"build_{kind}", lambda *_arguments: seen.update(os.environ)
    )
    getattr(backend, f"build_{kind}")("folder")
    assert seen["CC"] == "'/a folder/python' -m ziglang cc -mcpu=baseline"
    assert seen["LDSHARED"] == f"{seen['CC']} -shared"


def test_a_compiler_of_the_machine_is_preferred(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_compiler(tmp_path, "some-cc")
    monkeypatch.setenv("CC", "some-cc")
    monkeypatch.setattr(backend, "find_spec", lambda _name: object())
    seen: dict[str, str] = {}
    monkeypatch.setattr(
        backend.build_meta, "build_wheel", lambda *_arguments: seen.update(os.environ)
    )
    backend.build_wheel("folder")
    assert seen["CC"] == "some-cc"


# -- setup.py -------------------------------------------------------------------------------------


class Refused(Exception):
    """Stands for Cython's CompileError."""


def loaded_setup(
    monkeypatch: pytest.MonkeyPatch, cythonize: Callable[..., Any], run_name: str = "__main__"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run setup.py with a fake Cython; return its names and its arguments to setuptools."""
    modules = {name: ModuleType(name) for name in ("Cython.Build", "Cython.Compiler.Errors")}
    vars(modules["Cython.Build"])["cythonize"] = cythonize
    vars(modules["Cython.Compiler.Errors"])["CompileError"] = Refused
    for name in ("Cython", "Cython.Compiler"):
        modules[name] = ModuleType(name)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    arguments: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **named: arguments.update(named))
    return runpy.run_path(str(ROOT / "setup.py"), run_name=run_name), arguments


def as_cythonize_does(given: list[setuptools.Extension], **_named: object) -> Any:
    """Return other extensions for those given; Cython's lose ``optional``."""
    return [setuptools.Extension(each.name, [*each.sources]) for each in given]


def refuse(*_given: object, **_named: object) -> Any:
    raise Refused("machine.py:1: not like this")


def test_all_processors_compile_in_an_editable_installation_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    names, arguments = loaded_setup(monkeypatch, as_cythonize_does)
    distribution = setuptools.Distribution(
        {"ext_modules": arguments["ext_modules"], "options": arguments["options"]}
    )
    distribution.cmdclass = arguments["cmdclass"]
    build = distribution.get_command_obj("build_ext")
    build.ensure_finalized()
    # As editable_wheel of setuptools does: all options are reset.
    again = distribution.reinitialize_command("build")
    again.ensure_finalized()
    distribution.reinitialize_command(build)
    build.ensure_finalized()
    assert build.parallel == names["CORES"] == 7


def test_modules_with_a_pxd_file_are_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, arguments = loaded_setup(monkeypatch, as_cythonize_does)
    assert [each.name for each in names["modules"]()] == compiled_modules()
    assert [each.name for each in arguments["ext_modules"]] == [
        *compiled_modules(),
        names["SHARED"],
    ]
    # Each costs 9,000 lines of C before its own code.
    assert 3 <= len(compiled_modules()) <= 41
    for each in names["modules"]():
        assert [(ROOT / source).is_file() for source in each.sources] == [True]


def test_each_module_is_optimized_in_one_way_and_others_cheaply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, _arguments = loaded_setup(monkeypatch, as_cythonize_does)
    given = {each.name: each.extra_compile_args for each in names["modules"]()}
    named = [name for chosen in names["FLAGS"].values() for name in chosen]
    assert len(named) == len(set(named))
    assert set(named) <= given.keys()
    for name in given.keys() - set(named):
        assert given[name] == ["-g0", "-O1"]
    for flags, chosen in names["FLAGS"].items():
        assert {" ".join(given[name]) for name in chosen} == {f"-g0 {flags}"}


@pytest.mark.parametrize("is_required", [False, True])
def test_modules_are_optional_unless_required(
    monkeypatch: pytest.MonkeyPatch, *, is_required: bool
) -> None:
    monkeypatch.setenv("KANALYZE_REQUIRE_COMPILED", "01"[is_required])
    _names, arguments = loaded_setup(monkeypatch, as_cythonize_does)
    assert {each.optional for each in arguments["ext_modules"]} == {not is_required}


def test_nothing_is_compiled_with_kanalyze_pure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KANALYZE_PURE", "1")
    assert loaded_setup(monkeypatch, refuse)[1]["ext_modules"] == []


def test_a_process_of_cython_that_imports_setup_py_compiles_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As multiprocessing does where it does not fork.
    assert loaded_setup(monkeypatch, refuse, run_name="__mp_main__")[1] == {}


def test_modules_that_cython_refuses_stay_uncompiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert loaded_setup(monkeypatch, refuse)[1]["ext_modules"] == []
    assert capsys.readouterr().err == (
        "kanalyze: not compiled, it will run slowly: machine.py:1: not like this\n"
    )


def test_modules_that_cython_refuses_are_an_error_where_they_are_required(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KANALYZE_REQUIRE_COMPILED", "1")
    with pytest.raises(Refused):
        loaded_setup(monkeypatch, refuse)
    assert "cannot be compiled, and KANALYZE_REQUIRE_COMPILED=1\n" in capsys.readouterr().err


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_a_wheel_for_every_python_is_compiled_with_the_oldest_one(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int]
) -> None:
    """Wheels compiled with 3.12 and 3.13.0 aborted in 3.11: too few references to True."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["cibuildwheel"]["build"] == "cp311-*"
    monkeypatch.setenv("KANALYZE_ABI3", "1")
    monkeypatch.setattr(sys, "version_info", version)
    if version > (3, 11):
        with pytest.raises(BaseError, match=r"needs Python 3\.11"):
            loaded_setup(monkeypatch, as_cythonize_does)
        return
    names, arguments = loaded_setup(monkeypatch, as_cythonize_does)
    assert arguments["ext_modules"] != []
    assert ("Py_LIMITED_API", "0x030B0000") in names["modules"]()[0].define_macros


# -- uncompiled -----------------------------------------------------------------------------------


def source_of(name: str) -> str:
    return Path(ROOT, *name.split(".")).with_suffix(".py").read_text(encoding="utf-8")


@for_each("name", compiled_modules())
def test_a_compiled_module_uses_only_names_that_the_fake_cython_has(name: str) -> None:
    used_names = set(re.findall(r"\bcython\.(\w+)", source_of(name)))
    assert not used_names or "compiled" in used_names
    assert {each for each in used_names if not hasattr(cython, each)} == set()


def test_compiled_modules_are_plain_python_that_needs_no_cython() -> None:
    subprocess.run(
        [sys.executable, "-c", USE_UNCOMPILED, *compiled_modules()],
        check=True,
        cwd=ROOT,
        env=os.environ | {"KANALYZE_PURE": "1", "PYTHONPATH": str(ROOT)},
    )


# -- installed ------------------------------------------------------------------------------------


def required_by_the_build(folder: Path) -> Path:
    """A folder with the packages that a build requires, and no others."""
    folder.mkdir()
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    for requirement in build["requires"]:
        found = metadata.distribution(re.split(r"[<>=! ;[]", requirement)[0])
        for name in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (folder / name).symlink_to(str(found.locate_file(name)))
    return folder


def test_a_build_imports_only_what_it_requires(tmp_path: Path) -> None:
    """In an environment with nothing else, whose place only the process of the build knows."""
    venv.create(tmp_path / "environment", symlinks=True)
    out = tmp_path / "out"
    command = ["setup.py", "-q", "install_data", "--install-dir", str(out)]
    required = required_by_the_build(tmp_path / "required")
    subprocess.run(
        [tmp_path / "environment" / "bin" / "python", "-c", BUILD, required, *command],
        check=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    written = [path for path in out.rglob("*") if path.is_file() and path.read_bytes()]
    assert {path.relative_to(out).as_posix() for path in written} == {*FILES_FOR_SHELLS}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


def script(path: Path, text: str) -> str:
    """Write a script that calls the compiler of this machine; return its path."""
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def check_runs_uncompiled(environment: Environment) -> None:
    assert " (not compiled), " in environment.run("--version").stdout
    for command in (["report", BASICS], ["requests", "--format", "csv", BASICS], ["protocol"]):
        done = environment.run(*command)
        assert done.stderr == f"{SLOWLY}\n"
        assert done.returncode == 0
        assert done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("compiler", "word"), [(HEADERLESS_CC, "Python.h"), (PICKY_CC, "this one")]
)
@pytest.mark.parametrize("options", [[], ["--editable"]], ids=["copied", "editable"])
def test_no_module_is_compiled_where_one_cannot_be(
    project: Project,
    environment: Environment,
    tmp_path: Path,
    options: list[str],
    compiler: str,
    word: str,
) -> None:
    """Modules use each other's C types."""
    done = environment.install(project.folder, *options, CC=script(tmp_path / "cc", compiler))
    assert done.returncode == 0, done.stdout
    assert word in done.stdout
    assert "kanalyze: not compiled, it will run slowly" in done.stdout
    check_runs_uncompiled(environment)
    installed = [environment.folder, project.folder / "kanalyze"]
    assert [so for folder in installed for so in folder.rglob("kanalyze/**/*.so")] == []


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--editable"]], ids=["copied", "editable"])
def test_without_headers_of_python_it_is_an_error_where_compiled_modules_are_required(
    project: Project, environment: Environment, tmp_path: Path, options: list[str]
) -> None:
    compiler = script(tmp_path / "cc", HEADERLESS_CC)
    done = environment.install(project.folder, *options, CC=compiler, KANALYZE_REQUIRE_COMPILED="1")
    assert done.returncode != 0
    assert "kanalyze: cannot be compiled, and KANALYZE_REQUIRE_COMPILED=1\n" in done.stdout


@pytest.mark.long
def test_a_compiler_is_installed_from_pypi_where_there_is_none(
    project: Project, environment: Environment, tmp_path: Path
) -> None:
    """This reaches a package index."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("env", "sh"):
        (programs / name).symlink_to(Path("/bin", name))
    done = environment.install(
        project.folder, is_isolated=True, PATH=str(programs), KANALYZE_REQUIRE_COMPILED="1"
    )
    assert done.returncode == 0, done.stdout
    assert "-m ziglang cc -mcpu=baseline" in done.stdout
    assert 0 < lines_of_c(project.folder) <= MOST_LINES_OF_C
    assert " (compiled), " in environment.run("--version").stdout
    assert environment.run("report", BASICS).stderr == ""


@pytest.mark.long
def test_one_wheel_of_the_source_archive_is_for_every_python(
    project: Project, environment: Environment, tmp_path: Path
) -> None:
    archive = project.source_archive(tmp_path)
    with tarfile.open(archive) as opened:
        members = {name.partition("/")[2] for name in opened.getnames()}
    assert {"LICENSE", "NOTICE", "setup.py", "tools/packaging/backend.py"} <= members
    assert {"tests/conftest.py", "kanalyze/render/html/page.html"} <= members
    assert {source_path(name, ".pxd") for name in compiled_modules()} <= members
    assert [name for name in members if name.endswith((".c", ".so", ".pyc"))] == []

    done = environment.wheel(archive, tmp_path, KANALYZE_ABI3="1", KANALYZE_REQUIRE_COMPILED="1")
    if sys.version_info[:2] != (3, 11):
        assert "KANALYZE_ABI3=1 needs Python 3.11" in done.stdout
        return
    assert done.returncode == 0, done.stdout
    (wheel,) = tmp_path.glob("*.whl")
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as opened_wheel:
        contents = set(opened_wheel.namelist())
        opened_wheel.extractall(tmp_path / "wheel")
    for name in compiled_modules():
        assert {source_path(name, end) for end in (".py", ".pxd", ".abi3.so")} <= contents
    data = [
        path.relative_to(ROOT).as_posix()
        for end in ("*.json", "*.sql", "*.properties", "*.css", "*.js", "*.LICENSE", "py.typed")
        for path in (ROOT / "kanalyze").rglob(end)
    ]
    assert {*data, "kanalyze/render/html/page.html"} <= contents
    shared = {name.partition(".data/data/")[2] for name in contents}
    assert {*FILES_FOR_SHELLS} <= shared
    assert [name for name in contents if name.endswith(".c")] == []

    found = interpreters()
    assert sys.version_info[:2] in found
    for python in found.values():
        subprocess.run(
            [python, "-c", DECODE, str(BASICS)],
            check=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path / "wheel")},
        )


def lines_of_c(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("kanalyze/**/*.c"))


def source_path(name: str, end: str) -> str:
    return name.replace(".", "/") + end
