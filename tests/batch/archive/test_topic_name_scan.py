"""Topic names are found in the Metadata responses of real clients, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kanalyze.batch.archive.packed_segments import as_arrays, select_rows
from kanalyze.batch.archive.topic_name_scan import TopicNameScan
from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.merge import MergedCaptures
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.net.headers import HeaderReader
from kanalyze.net.layer_stats import LayerStats
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import NAMES, often, path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.net.segment_columns import SegmentColumns

WITH_NAMES = ("basics", "cluster", "groups", "large", "mock")


def segments_of(name: str) -> list[SegmentColumns]:
    stores = Stores()
    captures = MergedCaptures(find_inputs([str(path(name))], stores), stores=stores)
    reader = HeaderReader(LayerStats(every_anomaly=True))
    return [as_arrays(reader.read(batch)) for batch in captures.batches()]


def names_in(batches: Iterable[SegmentColumns]) -> dict[bytes, str]:
    catalog = Catalog()
    scan = TopicNameScan(catalog, Decoders(catalog))
    for batch in batches:
        scan.feed(batch)
    return scan.names


def known_names(name: str) -> dict[bytes, str]:
    """The names that the analysis learns from any message."""
    run = Analysis([str(path(name))])
    for _ in run.batches():
        pass
    return run.names.known


@pytest.mark.parametrize("name", often(NAMES, WITH_NAMES))
def test_the_scan_finds_no_names_that_the_analysis_does_not_know(name: str) -> None:
    found, known = names_in(segments_of(name)), known_names(name)
    assert found.items() <= known.items()
    assert found or name not in WITH_NAMES


def test_a_response_in_several_batches_gives_its_names() -> None:
    (batch,) = segments_of("large")
    one_by_one = [select_rows(batch, np.array([row])) for row in range(len(batch))]
    assert names_in(one_by_one) == names_in([batch]) != {}


def test_a_response_with_a_hole_has_no_names() -> None:
    """A Metadata response is sent in three segments, of which the second is missing."""
    (batch,) = segments_of("basics")
    (first,) = first_response(batch)
    assert names_in([pieces(batch, first, kept=(0, 1, 2))]) != {}
    assert names_in([pieces(batch, first, kept=(0, 2))]) == {}


def first_response(batch: SegmentColumns) -> list[int]:
    """The first segment after which a name is known."""
    for row in range(len(batch)):
        if names_in([select_rows(batch, np.arange(row + 1))]):
            return [row]
    return []


def pieces(batch: SegmentColumns, row: int, kept: tuple[int, ...]) -> SegmentColumns:
    """Return all segments up to ``row``, which is split in three, with the ``kept`` pieces."""
    third = int(batch.captured_bytes[row]) // 3
    ends = [third, 2 * third, int(batch.captured_bytes[row])]
    begins = [0, *ends[:-1]]
    rows = np.array([*range(row), *(row for _ in kept)])
    made = select_rows(batch, rows)
    for place, piece in enumerate(kept, start=row):
        made.payload_start[place] += begins[piece]
        made.sequence[place] += begins[piece]
        made.captured_bytes[place] = made.payload_bytes[place] = ends[piece] - begins[piece]
    return made


def test_incomplete_responses_are_buffered_only_once() -> None:
    """A client repeats its request on a connection, and the response is never complete."""
    (batch,) = segments_of("basics")
    (first,) = first_response(batch)
    half = pieces(batch, first, kept=(0,))
    catalog = Catalog()
    scan = TopicNameScan(catalog, Decoders(catalog))
    for _ in range(5):
        scan.feed(half)
    assert (
        scan._buffered_bytes == sum(len(response.data) for response in scan._awaited.values()) > 0
    )
