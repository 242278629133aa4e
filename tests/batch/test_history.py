"""Which captures come too late, and from which run on an archive is read again."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.batch.history import (
    ALL_CONNECTIONS,
    CONNECTION_BITS,
    SeenCapture,
    Stretch,
    connections_of,
    from_json,
    run_before,
    stretch_of_late,
    to_json,
    with_run,
)

HOUR_NS = 3_600_000_000_000


def stretch(
    before: int | None, first_h: float, last_h: float, connections: int = 1, *files: str
) -> Stretch:
    first_ns, last_ns = int(first_h * HOUR_NS), int(last_h * HOUR_NS)
    return Stretch(before, first_ns, last_ns, connections, dict.fromkeys(files, first_ns))


def history_of(*runs: Stretch) -> list[Stretch]:
    history: list[Stretch] = []
    for run in runs:
        history = with_run(history, run)
    return history


def test_runs_whose_captures_end_in_one_hour_are_one_stretch() -> None:
    runs = [stretch(0, 7, 7.2, 1, "a"), stretch(1, 7.2, 7.9, 2, "b"), stretch(2, 7.9, 8.1, 4, "c")]
    first, second = history_of(*runs)
    assert first == Stretch(
        0, 7 * HOUR_NS, int(7.9 * HOUR_NS), 3, {"a": 7 * HOUR_NS, "b": int(7.2 * HOUR_NS)}
    )
    assert second == runs[2]


@given(st.integers(1, 30))
def test_few_stretches_are_kept_and_the_first_has_all_earlier_connections(hours: int) -> None:
    runs = [stretch(hour, hour, hour + 0.5, 1 << hour, f"{hour}") for hour in range(hours)]
    history = history_of(*runs)
    assert len(history) == min(hours, 4)
    every = 0
    for one in history:
        every |= one.connections
    assert every == (1 << hours) - 1
    assert [one.before for one in history[-3:]] == [run.before for run in runs[-3:]]
    if hours > 4:
        assert (history[0].before, history[0].files) == (None, {})


def test_a_capture_is_late_if_it_begins_before_the_end_of_one_with_its_connections() -> None:
    history = [stretch(0, 1, 2, 0b0011), stretch(1, 2, 3, 0b0110), stretch(2, 3, 4, 0b1000)]

    def late(first_h: float, connections: int) -> int | None:
        seen = SeenCapture("a", int(first_h * HOUR_NS), connections)
        return stretch_of_late(history, [SeenCapture("b", 9 * HOUR_NS, ALL_CONNECTIONS), seen])

    assert late(1.5, 0b0001) == late(1.5, 0b0010) == 0
    assert late(1.5, 0b0100) == late(2.5, 0b0010) == late(2, 0b0010) == 1
    assert late(3.9, 0b1001) == 2
    assert late(1, 0b10000) is late(4, 0b1000) is late(2.5, 0b0001) is None
    assert stretch_of_late(history, []) is None


def test_what_is_too_far_back_is_not_read_again() -> None:
    history = [stretch(None, 0, 1), stretch(4, 1, 2), stretch(5, 2, 3), stretch(7, 4, 5)]
    assert [run_before(history, index) for index in range(4)] == [None, None, 5, 7]


def test_a_history_is_read_back_unchanged() -> None:
    history = [
        stretch(None, 1, 2, ALL_CONNECTIONS),
        stretch(3, 2, 3, 1 << (CONNECTION_BITS - 1) | 1, "/a.pcap", "/\udcff.pcap"),
        Stretch(4, 1, 2, 0, {"/empty.pcap": None}),
    ]
    assert from_json(json.loads(json.dumps(to_json(history)))) == history


def test_damaged_connections_are_an_error() -> None:
    with pytest.raises(ValueError, match="incorrect header"):
        connections_of(b"connections")


def test_no_more_is_decompressed_than_there_may_be() -> None:
    huge = zlib.compress(b"\1" + bytes(100 * CONNECTION_BITS))
    assert connections_of(huge).bit_length() <= CONNECTION_BITS
