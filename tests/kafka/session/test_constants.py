"""The constants of the connection stage are the same in Python and in C."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kanalyze
from tests.support.uncompiled import uncompiled

ROOT = Path(kanalyze.__file__).parent
MODULES = (
    "kanalyze.kafka.session.correlation",
    "kanalyze.kafka.session.exchange",
    "kanalyze.kafka.session.decode_plans",
    "kanalyze.kafka.session.whole_messages",
    "kanalyze.kafka.framing.frame",
)


def constants_of(name: str) -> dict[str, int]:
    """Read the constants of C out of the file of types of a module."""
    path = ROOT.parent / Path(*name.split(".")).with_suffix(".pxd")
    found = re.findall(r"^    ([A-Z_]+) = (-?\d+)$", path.read_text(), re.MULTILINE)
    return {constant: int(value) for constant, value in found}


@pytest.mark.parametrize("name", MODULES)
def test_every_constant_of_c_is_the_same_in_python(name: str) -> None:
    constants = constants_of(name)
    assert constants
    with uncompiled() as modules:
        python_constants = vars(modules[name])
    assert {constant: python_constants[constant] for constant in constants} == constants
