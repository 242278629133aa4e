"""What is compiled of anonymizing has the same numbers, and does the same, as its source."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kanalyze.anonymization.rules import Rule
from tests.support.captures import NAMES, often, path
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from pathlib import Path

MODULE = "kanalyze.anonymization.rewriting"


def test_the_numbers_of_rules_are_those_of_the_enumeration() -> None:
    with uncompiled() as modules:
        python = vars(modules[MODULE])
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
