"""Where the packets of earlier jobs are, as text: part of the saved state of a bucket.

In: a packet index and the names of its captures. Out: text, and back.
"""

from __future__ import annotations

import json
from typing import Final

from kanalyze.batch.archive.packed_segments import BlockError
from kanalyze.capture.packet_index import PacketIndex

__all__ = ["dump_locations", "load_locations"]

_MAX_RUNS: Final = 10_000
"""How many runs of the packet index are saved; each capture has one if captures do not overlap."""


def dump_locations(index: PacketIndex, names: list[str]) -> str:
    """Return where the latest packets are, for the rows of a later job."""
    end, runs = index.latest(_MAX_RUNS)
    used = sorted({capture for _, capture, _ in runs})
    indices = {capture: number for number, capture in enumerate(used)}
    return json.dumps(
        {
            "names": [names[capture] for capture in used],
            "end": end,
            "runs": [[first, indices[capture], within] for first, capture, within in runs],
        }
    )


def load_locations(text: str | None) -> tuple[PacketIndex, list[str]]:
    """Return a packet index and the names of its captures; None: both are empty.

    Raises:
        BlockError: the text was not written by :func:`dump_locations`.
    """
    index = PacketIndex()
    if text is None:
        return index, []
    try:
        state = json.loads(text)
        names = [str(name) for name in state["names"]]
        runs = [(int(first), int(capture), int(within)) for first, capture, within in state["runs"]]
        end = int(state["end"])
    except (ValueError, KeyError, TypeError) as error:
        raise BlockError(f"the state of a bucket is damaged: {error}") from error
    if not all(0 <= capture < len(names) for _, capture, _ in runs):
        raise BlockError("the state of a bucket is damaged: packets of no capture")
    index.load_state(end, runs)
    return index, names
