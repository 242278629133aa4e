"""Every command works after every installation: without extras, with each of them, with all.

A package that is not installed costs only what needs it, and one line names it. All packages are
installed where the other tests run, so none of these would notice that a command needs one too
many: a compiled module imports what its declarations name even if its source imports it later.
"""

from __future__ import annotations

import shlex
import shutil
import tomllib
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support.captures import FOLDER, NAMES, ROOT, TROUBLED, often, path
from tests.support.clean_environments import (
    NOT_FOR_USERS,
    CleanEnvironment,
    extras_of,
    install,
    make_wheel,
)
from tests.support.every_command import COMMANDS, Line, line_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import PathDistribution
    from pathlib import Path

    from tests.support.every_command import Result

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = sorted(PROJECT["optional-dependencies"].keys() - NOT_FOR_USERS)
ALL = ",".join(EXTRAS)
ENVIRONMENTS = ["", *EXTRAS, ALL]
KINDS = ("basics", "codecs", "errors", "ipv6", "old-0-8-2-2", "sasl", "snaplen", "tls")
"""Captures that need different parts: compressions, formats, layers, TLS."""
NEEDS = {
    "requests {tls}.pcap --keylog {tls}.keys": "tls",
    "report {tls}.pcap --keylog {tls}.keys": "tls",
    "live --list": "live",
    "requests http://127.0.0.1:9/a.pcap": "remote",
    "batch {capture} --out {out} --engine spark": "spark",
    "mcp {capture}": "mcp",
    "batch {capture} --out {out} --engine process --table-format delta": "delta",
    "batch {capture} --out {out} --engine process --table-format iceberg": "iceberg",
}
"""What does not work without an extra."""
BRINGS = {"mcp": ["tls"]}
"""Extras whose packages bring those of others."""
TLS = FOLDER / "tls" / "tls13-kcat"


class Installation(NamedTuple):
    """An environment, and the extras that it has."""

    environment: CleanEnvironment
    extras: list[str]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> PathDistribution:
    folder = tmp_path_factory.mktemp("wheel")
    return install(make_wheel(folder), folder / "site")


@pytest.fixture(scope="module", params=ENVIRONMENTS, ids=lambda extras: extras or "none")
def installation(
    request: pytest.FixtureRequest,
    wheel: PathDistribution,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installation]:
    extras = [name for name in request.param.split(",") if name]
    folder = tmp_path_factory.mktemp("environment")
    yield Installation(CleanEnvironment(folder / "env", wheel, extras), extras)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with captures of all kinds."""
    folder = tmp_path_factory.mktemp("captures")
    for name in KINDS:
        shutil.copy(path(name), folder)
    return folder


def test_the_wheel_has_the_extras_of_the_project(wheel: PathDistribution) -> None:
    assert extras_of(wheel) == EXTRAS


def test_every_command_works(installation: Installation, captures: Path, tmp_path: Path) -> None:
    # With one extra, a sixth of the commands, in turn: there may be what is not there without any.
    turns = 6 if len(installation.extras) == 1 else 1
    turn = ENVIRONMENTS.index(",".join(installation.extras)) % turns
    check(installation, commands_on(captures, path("basics"), tmp_path)[turn::turns])


@pytest.mark.long
def test_every_command_works_with_each_extra(
    installation: Installation, captures: Path, tmp_path: Path
) -> None:
    check(installation, commands_on(captures, path("basics"), tmp_path))


@pytest.mark.parametrize(
    "installation",
    often(ENVIRONMENTS, ["", "tls", ALL]),
    indirect=True,
    ids=lambda name: name or "none",
)
def test_every_command_works_on_a_capture_with_tls(
    installation: Installation, tmp_path: Path
) -> None:
    names = [name for name in COMMANDS if name.split(",")[0] in ("report", "extract", "compare")]
    check(
        installation, [line_of(name, TLS.with_suffix(".pcap"), tmp_path / name) for name in names]
    )


@pytest.mark.long
def test_every_command_works_on_every_capture(installation: Installation, tmp_path: Path) -> None:
    for name in [*NAMES, *TROUBLED]:
        check(installation, commands_on(path(name), path(name), tmp_path / name))


def commands_on(captures: Path, one: Path, folder: Path) -> list[Line]:
    """Every command; those that read standard input are given one capture."""
    folder.mkdir(exist_ok=True)
    return [
        line_of(name, one if " - " in text else captures, folder / name.replace(", ", "-"))
        for name, text in COMMANDS.items()
    ]


def check(installation: Installation, lines: list[Line]) -> None:
    """All succeed, and none says that something is not installed."""
    results = installation.environment.run(lines)
    bad = {
        shlex.join(line.arguments): result
        for line, result in zip(lines, results, strict=True)
        if result.status != 0 or "installed" in result.errors
    }
    assert bad == {}


def test_what_needs_an_extra_names_it_in_one_line(
    installation: Installation, captures: Path, tmp_path: Path
) -> None:
    there = [*installation.extras]
    for extra in installation.extras:
        there += BRINGS.get(extra, [])
    texts = [text for text, extra in NEEDS.items() if extra not in there]
    words = {"tls": TLS, "capture": captures, "out": tmp_path / "out"}
    lines = [Line(text.format(**words).split(" "), "/dev/null") for text in texts]
    results = installation.environment.run(lines)
    assert len(results) == len(texts)
    for text, result in zip(texts, results, strict=True):
        assert names_the_extra(result, NEEDS[text]), (text, result)


def names_the_extra(result: Result, extra: str) -> bool:
    """True if a command ended with one line that says how to install an extra."""
    lines = result.errors.splitlines()
    return result.status == 2 and len(lines) == 1 and f"kanalyze[{extra}]" in lines[0]
