"""Captures of TLS out of order: the rows are the same, except for packet numbers.

As ``tests/test_disorder.py``, with keys: records begin and end in other packets, or come again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import tls_captures
from tests.support.captures import in_turn
from tests.support.disorder import BEYOND, TRANSFORMATIONS, Stage
from tests.support.disorder.compare import differences, untrue_rows

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = [name for name in tls_captures.READABLE if name not in tls_captures.WITH_SECRETS]
FEW = ["tls13-sasl", "tls12-aes128gcm", "tls12-cbc-long", "tls13-chacha20"]
OF_STREAMS = [label for label, step in TRANSFORMATIONS.items() if step.stage <= Stage.COPIES]
"""Transformations that change how bytes come; the others change layers below TCP."""


@pytest.mark.few(13)
@pytest.mark.parametrize(("label", "name"), in_turn(OF_STREAMS, FEW))
def test_a_transformed_capture_gives_the_same_rows(name: str, label: str, tmp_path: Path) -> None:
    assert differences(f"tls/{name}", [label], tmp_path) == []


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("sent again with other bytes", "tls13-key-update"),
        ("extended backwards", "tls12-clients"),
        ("extended both ways", "tls12-resumed"),
    ],
)
def test_a_fetch_behind_one_that_is_held_back_waits_with_it_though_bytes_came_again(
    name: str, label: str, tmp_path: Path
) -> None:
    """What it waited for is known, though how its time divides is not."""
    assert differences(f"tls/{name}", [label], tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("label", OF_STREAMS)
@pytest.mark.parametrize("name", WHOLE)
def test_every_transformation_of_every_capture_gives_the_same_rows(
    name: str, label: str, tmp_path: Path
) -> None:
    assert differences(f"tls/{name}", [label], tmp_path) == []


@pytest.mark.parametrize(("label", "name"), in_turn(BEYOND, FEW))
def test_no_row_is_wrong_after_disorder_beyond_repair(
    name: str, label: str, tmp_path: Path
) -> None:
    assert untrue_rows(f"tls/{name}", [label], tmp_path) == []
