"""Every command answers on every capture, wherever the capture begins and ends."""

from __future__ import annotations

import random
import shlex
from typing import TYPE_CHECKING

import pytest

from kanalyze.spec import commands
from tests.support.captures import FOLDER
from tests.support.cut_captures import packets_of, write_pcap
from tests.support.every_command import COMMANDS, line_of, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CAPTURES = sorted(file for file in FOLDER.rglob("*.pcap*"))
FEW = 1
"""How many commands run on parts of a capture by default, in turn; the others are long tests."""
ON_CAPTURES = [name for name, text in COMMANDS.items() if "{capture}" in text or " - " in text]


def names_of(capture: Path) -> list[str]:
    """The commands that run on a capture by default."""
    at = CAPTURES.index(capture) * FEW
    return [ON_CAPTURES[(at + each) % len(ON_CAPTURES)] for each in range(FEW)]


def parts_of(capture: Path, folder: Path, count: int) -> Iterator[Path]:
    """Files with some of a capture's packets: from anywhere to anywhere."""
    packets = packets_of(capture)
    chance = random.Random(capture.name)
    for number in range(count):
        start, end = sorted(chance.sample(range(len(packets) + 1), 2))
        part = folder / f"part-{number}.pcap"
        write_pcap(part, packets[start:end])
        yield part


def check(name: str, capture: Path, folder: Path, whole: Path) -> None:
    """A command succeeds, and writes nothing but messages to standard error.

    ``whole`` is the capture of which this is a part: its secrets are in a file beside it.
    """
    keys = whole.with_suffix(".keys")
    more = ("--keylog", str(keys)) if keys.exists() and name != "anonymize" else ()
    line = line_of(name, capture, folder / name.replace(", ", "-"), *more)
    (result,) = run([line])
    assert result.status == 0, (shlex.join(line.arguments), result)
    assert all(text.startswith("kanalyze: ") for text in result.errors.splitlines()), result.errors


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_on_a_part_of_a_capture(capture: Path, tmp_path: Path) -> None:
    for name, part in zip(names_of(capture), parts_of(capture, tmp_path, FEW), strict=True):
        check(name, part, tmp_path, capture)


@pytest.mark.long
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_on_many_parts_of_a_capture(capture: Path, tmp_path: Path) -> None:
    for part in parts_of(capture, tmp_path, 3):
        folder = tmp_path / part.stem
        folder.mkdir()
        for name in ON_CAPTURES:
            check(name, part, folder, capture)


@pytest.mark.long
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_on_a_whole_capture(capture: Path, tmp_path: Path) -> None:
    for name in ON_CAPTURES:
        check(name, capture, tmp_path, capture)


def test_all_commands_are_here() -> None:
    # What needs a package of an extra has tests of its own.
    assert {text.split()[0] for text in COMMANDS.values()} == commands.COMMANDS.keys() - {"mcp"}
