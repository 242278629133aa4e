"""The constants of the machine are the same in Python and in C."""

from __future__ import annotations

import re
from pathlib import Path

import kanalyze
from kanalyze.kafka.codec import machine, opcodes, values
from kanalyze.kafka.codec.machine import Status
from kanalyze.kafka.framing import frame
from kanalyze.kafka.records import batches
from tests.support.uncompiled import uncompiled

ROOT = Path(kanalyze.__file__).parent.parent


def constants_of(name: str) -> dict[str, int]:
    """Read the constants of C out of a module's file of types: without a number, the next one."""
    text = (ROOT / name.replace(".", "/")).with_suffix(".pxd").read_text()
    constants: dict[str, int] = {}
    for block in re.findall(r"cdef enum:\n((?:(?:    .*)?\n)+)", text):
        following = 0
        code = re.sub("  #.*", "", block)
        for constant, value in re.findall(r"(\w+)(?: = (-?\d+))?(?:,|$)", code, re.MULTILINE):
            constants[constant] = int(value or following)
            following = constants[constant] + 1
    return constants


def test_opcodes_and_flags_are_those_of_c() -> None:
    compiled = constants_of(machine.__name__)
    numbers = {name: value for name, value in vars(opcodes).items() if name.isupper()}
    assert numbers == {name: compiled[name] for name in numbers}
    assert len(numbers) > 30


def test_every_constant_of_c_is_the_same_in_python() -> None:
    with uncompiled() as modules:
        for module in (machine, values, frame, batches):
            python_constants = vars(modules[module.__name__])
            for name, value in constants_of(module.__name__).items():
                assert python_constants.get(name, vars(opcodes).get(name)) == value, name


def test_statuses_are_those_of_c() -> None:
    compiled = constants_of(machine.__name__)
    statuses = {name: value for name, value in vars(Status).items() if name.isupper()}
    assert statuses == {name: compiled[name] for name in statuses}


def test_kinds_of_shapes_are_those_of_c() -> None:
    compiled = constants_of(values.__name__)
    kinds = {f"AS_{name.upper()}": number for number, name in enumerate(values.KINDS)}
    assert kinds.items() <= compiled.items()
