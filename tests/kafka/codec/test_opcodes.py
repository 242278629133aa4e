"""The constants of the machine are the same in Python and in C."""

from __future__ import annotations

import re
from pathlib import Path

import kanalyze
from kanalyze.kafka.codec import decoder, machine, opcodes, values
from kanalyze.kafka.codec.machine import Status
from tests.support.uncompiled import uncompiled

CODEC = Path(kanalyze.__file__).parent / "kafka" / "codec"


def constants_of(name: str) -> dict[str, int]:
    """Read the constants of C out of a file of types."""
    text = (CODEC / f"{name}.pxd").read_text()
    constants: dict[str, int] = {}
    for block in re.findall(r"cdef enum:\n((?:(?:    .*)?\n)+)", text):
        for constant, value in re.findall(r"^    (\w+) = (-?\d+)$", block, re.MULTILINE):
            constants[constant] = int(value)
    return constants


def test_opcodes_and_flags_are_those_of_c() -> None:
    compiled = constants_of("machine")
    for name in opcodes.__all__:
        assert compiled[name] == getattr(opcodes, name), name


def test_every_constant_of_c_is_the_same_in_python() -> None:
    with uncompiled() as modules:
        for module in (machine, values, decoder):
            python_constants = vars(modules[module.__name__])
            for name, value in constants_of(module.__name__.rpartition(".")[2]).items():
                assert python_constants.get(name, vars(opcodes).get(name)) == value, name


def test_statuses_are_those_of_c() -> None:
    compiled = constants_of("machine")
    statuses = {name: value for name, value in vars(Status).items() if name.isupper()}
    assert statuses == {name: compiled[name] for name in statuses}


def test_kinds_of_shapes_are_those_of_c() -> None:
    compiled = constants_of("values")
    assert {f"AS_{name.upper()}": value for name, value in values.KINDS.items()} == compiled


def test_every_opcode_has_a_line_in_the_table() -> None:
    table = (opcodes.__doc__ or "").replace("INT8 ... INT64", "INT8 INT16 INT32 INT64")
    codes = opcodes.__all__
    flags = ("NULLS", "COMPACT", "WIDE", "WANTED", "KEEP_UNKNOWN")
    flags += ("CONTROL", "HIDDEN_COUNT", "HIDDEN_FIRST", "MALFORMED_RECORDS", "MISSING_RECORDS")
    flags += ("TRUNCATED_RECORDS", "RECORDS_CELLS", "NEXT_TAG_ADDRESS")
    for name in codes:
        if name not in flags and not name.startswith("UINT"):
            assert name in table, name
