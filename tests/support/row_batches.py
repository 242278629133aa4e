"""Rows cut into batches, some as objects and some by column, for tests of what takes batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kanalyze.analysis.block import RowBatch, RowBlock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from kanalyze.analysis.row import Row


def batches_of(rows: Sequence[Row], dice: Random) -> list[RowBatch]:
    """Return rows in batches that together give them in order."""
    cuts = sorted(dice.choices(range(len(rows) + 1), k=dice.randrange(4)))
    ends = zip([0, *cuts], [*cuts, len(rows)], strict=True)
    return [batch_of(rows[first:last], dice) for first, last in ends]


def batch_of(rows: Sequence[Row], dice: Random) -> RowBatch:
    """Return rows in a batch of up to three blocks, and objects."""
    homes = [dice.randrange(4) for _ in rows]
    numbers = [[n for n, home in enumerate(homes) if home == wanted] for wanted in range(4)]
    *blocks, objects = [[rows[number] for number in some] for some in numbers]
    held = [number for some in numbers for number in some]
    order = np.empty(len(rows), dtype=np.int64)
    order[held] = np.arange(len(rows))
    return RowBatch(objects, tuple(map(RowBlock.of_rows, blocks)), order)
