"""What is compiled of anonymizing has the same numbers, and does the same, as its source."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kanalyze
from kanalyze.anonymization.rules import Rule
from tests.support.captures import NAMES, often, path
from tests.support.uncompiled import uncompiled

MODULE = "kanalyze.anonymization.rewriting"


def constants() -> dict[str, int]:
    types = Path(kanalyze.__file__).parent / "anonymization" / "rewriting.pxd"
    block = re.findall(r"cdef enum:\n((?:(?:    .*)?\n)+)", types.read_text())[0]
    found = re.findall(r"^    (\w+) = (-?\w+)$", block, re.MULTILINE)
    return {name: int(value, 0) for name, value in found}


def test_every_constant_of_c_is_that_of_python() -> None:
    rules = vars(__import__("kanalyze.anonymization.rules", fromlist=["rules"]))
    with uncompiled() as modules:
        python = vars(modules[MODULE])
        for name, value in constants().items():
            if name != "FAILED":  # only C says by a number that something was raised
                assert python.get(name, rules.get(name)) == value, name
        for name in ("UUID", "BLANK", "MESSAGE", "RECORDS"):
            assert list(Rule)[python[f"{name}_RULE"]] is Rule[name]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", often(NAMES, ("ipv6", "snaplen", "codecs")))
def test_the_source_writes_the_same_bytes(tmp_path: Path, name: str) -> None:
    made = []
    for is_pure in ("0", "1"):
        target = tmp_path / is_pure
        command = ["anonymize", "--key", "any", "-o", str(target), str(path(name))]
        subprocess.run(
            [sys.executable, "-m", "kanalyze", *command],
            env={**os.environ, "KANALYZE_PURE": is_pure},
            capture_output=True,
            check=True,
        )
        made.append(target.read_bytes())
    assert made[0] == made[1]
