"""Compares the rows of a transformed capture with the expected ones.

In: a name of a capture and of transformations. Out: how they differ. This is the one module of the
package that knows the product, by its pipeline alone.
"""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import analysis, key_log
from tests.support.disorder.catalog import BEYOND, TRANSFORMATIONS
from tests.support.disorder.transformation import PLACES, TIMES, WAY, Stage, plain_file
from tests.support.disorder.variants import altered, packets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from kanalyze.runtime.pipeline import CaptureInput
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.quality import CaptureQuality
    from tests.support.disorder.packet import Packet
    from tests.support.disorder.transformation import Altered

_COUNTS = (
    "connections",
    "kafka_connections",
    "tls_connections",
    "other_connections",
    "kafka_bytes",
    "decoded_bytes",
    "undecoded_bytes",
    "skipped_bytes",
    "lost_bytes",
)
"""Counts of the whole capture that no order and no encapsulation changes."""

_LEARNED = ("client_software_name", "client_software_version", "principal", "partitions")
"""Columns that are learned from earlier messages of the connection."""


@dataclass(frozen=True)
class Seen:
    """The product's rows and counts of a capture."""

    rows: tuple[Row, ...]
    counts: dict[str, int]


class Difference(NamedTuple):
    """A row or a count that differs from the expected one."""

    what: str
    expected: object
    found: object


def _the_folder(folder: Path) -> Sequence[str]:
    return [str(folder)]


def differences(
    name: str,
    transformations: Sequence[str],
    folder: Path,
    inputs: Callable[[Path], Sequence[str]] = _the_folder,
) -> list[Difference]:
    """Apply transformations to a capture, write it into a folder, and compare its rows.

    They are compared with the rows of the reference packets of the transformations: the original
    packets, except for times that are known to change. ``inputs`` returns the arguments with which
    the product reads the files in the folder.
    """
    change = altered(name, *transformations)
    write(change, folder, name)
    found = _seen(inputs(folder), name)
    expected = _expected(name, change)
    wrong = [
        Difference(count, expected.counts[count], found.counts[count])
        for count in _COUNTS
        if expected.counts[count] != found.counts[count]
    ]
    before = [change.change_row(row) for row in expected.rows]
    after = [_without(row, change.anomalies) for row in found.rows]
    has_other_packets = any(
        {**TRANSFORMATIONS, **BEYOND}[label].stage <= Stage.COPIES for label in transformations
    )
    return wrong + _row_differences(before, after, PLACES + WAY * has_other_packets)


def untrue_rows(name: str, transformations: Sequence[str], folder: Path) -> list[Row]:
    """Rows of a transformed capture that contradict the row of their exchange in the original.

    Rows without a response, or with bytes missing, are not checked; the others must be complete.
    """
    change = altered(name, *transformations)
    write(change, folder, name)
    found = _seen([str(folder)], name)
    expected_claims = {_claim(change.change_row(row)) for row in _expected(name, change).rows}
    answered = [
        row
        for row in found.rows
        if row.status in ("ok", "error", "one_way") and "lost_bytes" not in row.anomalies
    ]
    return [row for row in answered if _claim(row) not in expected_claims]


def _claim(row: Row) -> tuple[object, ...]:
    """The columns of a row, except times and the number of the connection on its ports."""
    blank = dict.fromkeys((*PLACES, *TIMES, *WAY, *_LEARNED, "anomalies", "connection_number"))
    return tuple(repr(value) for value in row._replace(**blank))  # type: ignore[arg-type]


def write(change: Altered, folder: Path, name: str) -> None:
    """Write the files of a change under names in random order."""
    names = [f"{number:03}.capture" for number in range(len(change.files))]
    Random(name).shuffle(names)
    for file_name, data in zip(names, change.files, strict=True):
        (folder / file_name).write_bytes(data)


def _expected(name: str, change: Altered) -> Seen:
    packets = packets_of(name)
    if tuple(change.reference) == packets:
        rows, quality = analysis(name)
        return Seen(rows, _counts(quality))
    return _reference(tuple(change.reference), name)


@functools.lru_cache(maxsize=1)
def _reference(packets: tuple[Packet, ...], name: str) -> Seen:
    return _seen([io.BytesIO(plain_file(list(packets), Random(0)))], name)


def _seen(captures: Sequence[CaptureInput], name: str) -> Seen:
    run = Analysis(captures, keylog=key_log(name))
    rows = tuple(row for batch in run.row_batches() for row in batch)
    return Seen(rows, _counts(run.quality))


def _counts(quality: CaptureQuality) -> dict[str, int]:
    return {count: getattr(quality, count) for count in _COUNTS}


def _without(row: Row, anomalies: Iterable[str]) -> Row:
    """Leave out anomalies that the transformation may bring."""
    kept = [anomaly for anomaly in row.anomalies if anomaly not in anomalies]
    return row._replace(anomalies=kept)


def _row_differences(
    before: Iterable[Row], after: Iterable[Row], columns: Sequence[str]
) -> list[Difference]:
    """Pair rows of the same exchange; return columns that differ, and rows without a partner."""
    expected, found = _by_key(before, columns), _by_key(after, columns)
    wrong = []
    for key in sorted({*expected, *found}, key=repr):
        mine, theirs = expected.get(key, []), found.get(key, [])
        if len(mine) != len(theirs):
            wrong.append(Difference(f"rows of {key}", len(mine), len(theirs)))
        for one, other in zip(mine, theirs, strict=False):
            wrong += [
                Difference(f"{column} of {key}", was, now)
                for column, was, now in zip(one._fields, one, other, strict=True)
                if was != now
            ]
    return wrong


def _by_key(rows: Iterable[Row], columns: Sequence[str]) -> dict[tuple[object, ...], list[Row]]:
    blank = dict.fromkeys(columns)
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = (row.connection, row.connection_number, row.correlation_id, row.api_name)
        found.setdefault(key, []).append(row._replace(**blank))  # type: ignore[arg-type]
    for same in found.values():
        same.sort(key=repr)
    return found
