"""The files around the code: the package's page and metadata, manual page, notices, image."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement

from kanalyze.cli.arguments import parser
from kanalyze.cli.completion import script_for
from tests.support.captures import ROOT
from tools.packaging import man_page, package_page, shell_files

if TYPE_CHECKING:
    from pathlib import Path

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
README = (ROOT / "README.md").read_text("utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
NOTICE = (ROOT / "NOTICE").read_text("utf-8")
LINK = re.compile(r"\]\((?!https?:)")


# -- the page of the package ----------------------------------------------------------------------


def test_the_page_of_the_package_is_the_readme_without_links_to_files() -> None:
    page = package_page.package_page(README)
    assert LINK.search(README) is not None
    assert LINK.search(page) is None
    assert "<!--" not in page
    blocks = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert blocks.findall(page) == blocks.findall(README) != []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("[Rows](docs/rows.md): all", "Rows (`docs/rows.md`): all"),
        ("[a](docs/live.md#metrics)", "a (`docs/live.md`)"),
        ("[LICENSE](LICENSE), [`x.md`](x.md)", "LICENSE, `x.md`"),
        ("[above](#install)", "above"),
        ("![a report](docs/report.svg)\nText", "\nText"),
        ("[![p](p.png)](page.html)", ""),
        ("[site](https://example.com/a)", "[site](https://example.com/a)"),
        ("<!-- main command -->\n```sh\n[a](b)\n```\n", "```sh\n[a](b)\n```\n"),
    ],
)
def test_a_link_to_a_file_becomes_its_text(given: str, expected: str) -> None:
    assert package_page.package_page(given) == expected


# -- for shells -----------------------------------------------------------------------------------


def commands() -> dict[str, argparse.ArgumentParser]:
    [found] = [each for each in parser()._actions if isinstance(each, argparse._SubParsersAction)]
    return {name: command.parser for name, command in found.choices.items()}


def plain(page: str) -> str:
    """A manual page without fonts and escapes."""
    text = re.sub(r"\\f[BIR]|\\&", "", page)
    return text.replace(r"\-", "-").replace(r"\(dq", '"').replace(r"\(aq", "'").replace(r"\e", "\\")


def test_the_manual_page_has_every_command_option_and_help() -> None:
    lines = plain(man_page.man_page()).splitlines()
    for name, made in commands().items():
        section = lines[lines.index(f'.SH "KANALYZE {name.upper()}"') + 1 :]
        section = section[: next(i for i, line in enumerate(section) if line.startswith(".SH "))]
        for action in made._actions:
            heads = [
                section[number - 1].replace(",", "").split()
                for number, line in enumerate(section)
                if line == action.help
            ]
            assert any({*action.option_strings} <= {*head} for head in heads), action.help
        for line in (made.epilog or "").splitlines():
            assert line in section


def test_text_in_the_manual_page_is_no_macro() -> None:
    made = argparse.ArgumentParser(prog="kanalyze", description="'Tis.\n.It is.")
    lines = man_page._text(made.description)
    assert lines == [r"\(aqTis.", r"\&.It is."]


def test_the_files_for_shells_are_written_where_a_wheel_has_its_data(tmp_path: Path) -> None:
    from setuptools import Distribution

    command = shell_files.InstallShellFiles(Distribution({"data_files": [("share", [])]}))
    command.install_dir = str(tmp_path)
    command.run()
    written = {name: (tmp_path / name).read_text("utf-8") for name in shell_files.FILES}
    assert command.get_outputs() == [str(tmp_path / name) for name in shell_files.FILES]
    # Separate processes write them, so that the terminal here has no effect.
    assert written.pop("share/man/man1/kanalyze.1") == man_page.man_page()
    assert [*written.values()] == [script_for(shell) for shell in ("bash", "zsh", "fish")]


# -- metadata and notices -------------------------------------------------------------------------


def test_no_url_is_made_up() -> None:
    """The project has no URL; whoever publishes it adds [project.urls] and changes this."""
    assert "urls" not in PROJECT
    assert PROJECT["authors"] == [{"name": "The kanalyze authors"}]


def test_the_classifiers_name_every_supported_python() -> None:
    versions = {
        line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if ":: Python :: 3." in line
    }
    assert versions == {"3.11", "3.12", "3.13", "3.14"}
    assert PROJECT["requires-python"] == ">=3.11"


def test_all_extras_have_the_same_bound_of_a_package() -> None:
    """Except for the packages named here."""
    bounds: dict[str, set[str]] = {}
    for extra in PROJECT["optional-dependencies"].values():
        for text in extra:
            requirement = Requirement(text)
            bounds.setdefault(requirement.name, set()).add(str(requirement.specifier))
    several = {name for name, found in bounds.items() if len(found) > 1}
    assert several <= {"pandas", "pyspark"}


def test_code_by_others_has_its_notice_and_its_licence() -> None:
    listed = subprocess.run(
        ["find", "kanalyze", "tests", "(", "-name", "*.min.js", "-o", "-iname", "*LICENSE*", ")"],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    ).stdout.split()
    assert len(listed) == 4
    for path in listed:
        assert path in NOTICE, path
    for path in PROJECT["license-files"]:
        assert (ROOT / path).is_file()
    library = (ROOT / "kanalyze/render/html/uPlot.iife.min.js").read_text("utf-8")
    [version] = re.findall(r"uPlot \(v([\d.]+)\)", library[:200])
    assert f"uPlot {version} " in NOTICE
    [copyright_line] = re.findall(
        r"Copyright .+", (ROOT / "kanalyze/render/html/uPlot.LICENSE").read_text("utf-8")
    )
    assert copyright_line in NOTICE
    axe = (ROOT / "tests/render/html/axe/axe.min.js").read_text("utf-8")[:300]
    [version] = re.findall(r"axe v([\d.]+)", axe)
    assert f"axe-core {version} " in NOTICE


# -- the source archive ---------------------------------------------------------------------------


def test_the_source_archive_has_every_file_that_is_not_generated() -> None:
    """The manifest names each top-level file and folder that is not included anyway."""
    manifest = (ROOT / "MANIFEST.in").read_text("utf-8")
    named = set(re.findall(r"[\w./-]+", manifest)) | {"MANIFEST.in", "README.md", "pyproject.toml"}
    made = (ROOT / ".gitignore").read_text("utf-8").split()
    ignored = {line.strip("/") for line in made} | {".git", ".ci", "kanalyze"}
    there = {
        path.name
        for path in ROOT.iterdir()
        if path.name not in ignored and not path.name.endswith((".egg-info", "_cache"))
    }
    assert there - named <= {"PKG-INFO", "setup.cfg"}  # an unpacked archive has these
    assert (ROOT / ".ci" / "run").is_file()
    assert ".ci/run" in named


# -- the image ------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each in one line."""
    code = "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#"))
    lines = code.replace("\\\n", " ").splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in lines if line]


def test_the_image_installs_existing_extras_with_a_supported_python() -> None:
    values = dict(text.split("=") for name, text in instructions() if name == "ARG")
    assert f"Programming Language :: Python :: {values['PYTHON']}" in PROJECT["classifiers"]
    assert set(values["EXTRAS"].split(",")) <= set(PROJECT["optional-dependencies"])
    for extra in re.findall(r"EXTRAS=([\w,]+)", DOCKERFILE):
        assert set(extra.split(",")) <= set(PROJECT["optional-dependencies"])
    [install] = [text for name, text in instructions() if name == "RUN" and "pip install" in text]
    assert '"/source[${EXTRAS}]"' in install
    assert "KANALYZE_REQUIRE_COMPILED=1" in install


def test_the_image_runs_the_program_as_an_ordinary_user() -> None:
    steps = instructions()
    [user] = [text for name, text in steps if name == "USER"]
    assert user.isdigit()
    assert int(user) > 0
    assert f"--uid {user} " in DOCKERFILE
    assert f"user {user}" in (ROOT / "SECURITY.md").read_text("utf-8")
    [entry] = [text for name, text in steps if name == "ENTRYPOINT"]
    assert entry == f'["{next(iter(PROJECT["scripts"]))}"]'
    assert [name for name, _ in steps].index("USER") < [name for name, _ in steps].index(
        "ENTRYPOINT"
    )


def test_the_docker_build_gets_the_files_that_it_reads() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in lines
    given = {line[1:] for line in lines if line.startswith("!")}
    assert all((ROOT / name).exists() for name in given)
    needed = {"kanalyze", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md"}
    needed |= {path.split("/")[0] for path in PROJECT["license-files"]}
    assert needed | {"tools/packaging"} == given


def test_the_commands_in_comments_of_the_dockerfile_are_valid() -> None:
    comments = " ".join(
        line.lstrip("# ").rstrip("\\") for line in DOCKERFILE.splitlines() if line.startswith("#")
    )
    runs = re.findall(
        r"kanalyze ((?:report|live) [^#|<`]+?)(?= docker| < | Without| --metrics)", comments
    )
    assert len(runs) >= 4
    for text in runs:
        arguments = parser().parse_args(shlex.split(text))
        assert arguments.command in ("report", "live")
    assert "CAP_NET_RAW" in comments
    assert "--cap-drop ALL --cap-add NET_RAW" in " ".join(comments.split())
