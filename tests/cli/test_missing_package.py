"""If a package is missing, one line says what to install, and the status is 2."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from kanalyze.cli import main as entry
from kanalyze.cli.main import text_of_missing_package
from tests.support.captures import ROOT, path

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT = """\
import sys
sys.modules[sys.argv.pop(1)] = None
from kanalyze.cli.main import run
run()
"""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("pandas", "polars", "remote", "spark", "live", "tls")


def packages(requirements: list[str]) -> list[str]:
    return [re.split(r"[ ><=;]", requirement)[0].replace("-", "_") for requirement in requirements]


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
        entry.main(["protocol", "Fetch"])


@pytest.mark.parametrize("package", packages(PROJECT["dependencies"]))
def test_the_message_names_the_missing_dependency(package: str) -> None:
    text = text_of_missing_package(ModuleNotFoundError(name=package))
    assert text is not None
    assert text.endswith(f" is not installed: pip install {package}")


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_message_names_an_extra_with_the_missing_package(extra: str) -> None:
    for package in packages(PROJECT["optional-dependencies"][extra]):
        text = text_of_missing_package(ModuleNotFoundError(name=package))
        assert text is not None
        match = re.search(r"pip install 'kanalyze\[(\w+)\]'$", text)
        assert match is not None
        packages_of_extra = packages(PROJECT["optional-dependencies"][match[1]])
        assert package in packages_of_extra


def test_all_extras_for_users_are_tested() -> None:
    others = {"test", "dev", "docs", "release"}
    assert set(EXTRAS) == PROJECT["optional-dependencies"].keys() - others
