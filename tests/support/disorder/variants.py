"""The captures of the repository, transformed.

In: names of captures and of transformations. Out: files, and columns that may differ.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from tests.support.disorder.capture_files import read_packets
from tests.support.disorder.catalog import BEYOND, SINGLE_BYTES, TRANSFORMATIONS
from tests.support.disorder.transformation import Stage, apply

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.support.disorder.packet import Packet
    from tests.support.disorder.transformation import Altered

_FOLDER = Path(__file__).resolve().parents[3] / "captures"
_COMBINED = 3


class Variant(NamedTuple):
    """A capture, transformed."""

    label: str
    files: list[bytes]
    columns: tuple[str, ...]
    """Columns that may differ from those of the original capture, with ``anomalies`` if anomalies
    may be added."""


@functools.lru_cache(maxsize=4)
def packets_of(name: str) -> tuple[Packet, ...]:
    """The packets of a capture of the repository, by its name, or of any file, by its path."""
    path = Path(name)
    if not path.is_file():
        truth = json.loads((_FOLDER / f"{name}.truth.json").read_text())
        path = (_FOLDER / name).parent / truth["capture"]
    return tuple(read_packets(path.read_bytes()))


def altered(name: str, *transformations: str, round_number: int = 0) -> Altered:
    """Apply transformations, by name, to a capture; each round makes other random choices."""
    steps = [(step, (TRANSFORMATIONS | BEYOND)[step]) for step in transformations]
    seed = Path(name).name + (f" {round_number}" if round_number else "")
    return apply(list(packets_of(name)), steps, seed)


def combination(name: str, round_number: int = 0) -> tuple[str, ...]:
    """Choose three transformations of different stages for a capture, always the same ones."""
    noise = Random(f"{name} {round_number}")
    by_stage: dict[Stage, list[str]] = {}
    for label, step in TRANSFORMATIONS.items():
        if not step.alone:
            by_stage.setdefault(step.stage, []).append(label)
    while True:
        stages = sorted(noise.sample(sorted(by_stage), _COMBINED))
        labels = tuple(noise.choice(by_stage[stage]) for stage in stages)
        if _fit(stages, labels):
            return labels


def _fit(stages: Sequence[Stage], labels: Sequence[str]) -> bool:
    """Return true if the promises of each transformation still hold together with the others.

    Several files are merged by time: this would undo a part of the disorder of packets with their
    own times, and change what that leaves in place. And a disorder of a few packets becomes one of
    thousands if they are cut to single bytes: more than a reassembler has to wait for.
    """
    if Stage.FILES in stages and Stage.ORDER in stages:
        return False
    return SINGLE_BYTES not in labels or not {Stage.TIMES, Stage.ORDER} & {*stages}


def variants(name: str, names: Iterable[str] | None = None) -> Iterator[Variant]:
    """Yield a capture after each transformation, then after a combination of three.

    Args:
        name: of a capture of the repository, or the path of any whole capture on Ethernet or in
            Linux cooked mode, version 2.
        names: of transformations; None for all, and then a combination too.
    """
    chosen = [(label,) for label in (TRANSFORMATIONS if names is None else names)]
    for labels in [*chosen, *([combination(name)] if names is None else [])]:
        found = altered(name, *labels)
        columns = found.columns + (("anomalies",) if found.anomalies else ())
        yield Variant(found.label, found.files, columns)
