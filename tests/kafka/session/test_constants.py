"""Numbers of the connection stage that stand twice, for Python and for C: they are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kanalyze
from tests.support.uncompiled import uncompiled

ROOT = Path(kanalyze.__file__).parent
MODULES = (
    "kanalyze.kafka.session.exchange",
    "kanalyze.kafka.session.message_bodies",
    "kanalyze.kafka.session.message_checks",
    "kanalyze.kafka.session.message_reader",
    "kanalyze.kafka.framing.frame",
)


def constants_of(name: str) -> dict[str, int]:
    """Read the constants of C out of the file of types of a module."""
    path = ROOT.parent / Path(*name.split(".")).with_suffix(".pxd")
    found = re.findall(r"^    ([A-Z_]+) = (-?\d+)$", path.read_text(), re.MULTILINE)
    return {constant: int(value) for constant, value in found}


@pytest.mark.parametrize("name", MODULES)
def test_every_constant_of_c_is_that_of_python(name: str) -> None:
    constants = constants_of(name)
    assert constants
    with uncompiled() as modules:
        python = vars(modules[name])
    assert {constant: python[constant] for constant in constants} == constants
