"""Rows beside a saved state are read by every version: columns by name."""

from __future__ import annotations

import functools
import json
import zlib
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.runtime.closing_rows import ClosingRowsError, before_state, rows_of, split
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import path
from tests.support.cases import for_each

if TYPE_CHECKING:
    from kanalyze.runtime.table_rows import TableRows

STATE = b"kanalyze-state 13 0.1.0 and so on"


@functools.cache
def rows_in(name: str) -> list[TableRows]:
    return list(Analysis([path(name)]).table_rows(["groups", "metadata"]))


def saved(rows: list[TableRows]) -> Any:
    kept, _ = split(before_state(rows, STATE))
    assert kept is not None
    return json.loads(zlib.decompress(kept))


def packed(content: Any) -> bytes:
    return zlib.compress(json.dumps(content).encode())


@pytest.mark.parametrize("name", ["groups", "errors", "mock", "snaplen"])
def test_rows_of_every_table_are_kept(name: str) -> None:
    rows = rows_in(name)
    kept, state = split(before_state(rows, STATE))
    assert state == STATE
    assert kept is not None
    loaded = rows_of(kept)
    # Codes of texts may differ, and what is null: so both are saved once more.
    assert saved(loaded) == saved(rows)
    assert [len(list(part.blocks())) for part in loaded] == [
        count for part in rows if (count := len(list(part.blocks())))
    ]
    values = [[block.rows() for block in part.requests] for part in rows if any(part.blocks())]
    assert [[block.rows() for block in part.requests] for part in loaded] == values
    assert [row for part in loaded for row in part.connections] == [
        row for part in rows for row in part.connections
    ]


def test_no_rows_are_kept_beside_states_of_format_12() -> None:
    for state in (STATE, b"", b"kanalyze-rows", b"kanalyze-rows 1 x y\n"):
        assert split(state) == (None, state)
    assert split(before_state([], STATE))[1] == STATE


def test_a_column_may_be_new_or_gone() -> None:
    content = saved(rows_in("errors"))
    for part in content:
        for _, block in part["blocks"]:
            block["columns"]["gone"] = ["x"] * block["rows"]
            for name in ("latency_ns", "anomalies", "throttle_time_ms", "end"):
                block["columns"].pop(name, None)
            for column in block["columns"].values():
                if isinstance(column, dict):
                    column["fields"].pop("codec", None)
    rows = [
        row for part in rows_of(packed(content)) for block in part.requests for row in block.rows()
    ]
    assert rows
    assert {row.latency_ns for row in rows} == {None}
    assert [row.anomalies for row in rows] == [[]] * len(rows)
    assert {item.codec for row in rows for item in row.partitions} == {None}
    assert any(row.status == "ok" and row.request_bytes for row in rows)


@for_each("seed", range(200))
def test_damage_is_seen(seed: int) -> None:
    dice = Random(seed)
    data = before_state(rows_in("mock"), STATE)
    bad = bytearray(data)
    at = dice.randrange(len(data) - len(STATE))
    bad[at] ^= 1 << dice.randrange(8)
    assert split(bytes(bad))[0] is None
    assert split(data[:at])[0] is None


@for_each(
    "content",
    [
        *(None, 1, "x", [1], [{"first_id": 1}]),
        [{"first_id": 1, "blocks": [["nothing", {"rows": 0, "columns": {}}]]}],
        [{"first_id": 1, "blocks": [["requests", {"rows": 2, "columns": {"status": ["ok"]}}]]}],
        [{"first_id": 1, "blocks": [["requests", {"rows": 1, "columns": {"acks": ["x"]}}]]}],
        [{"first_id": 1, "blocks": [["requests", {"rows": 1, "columns": {"acks": [1 << 70]}}]]}],
        [
            {
                "first_id": 1,
                "blocks": [
                    ["requests", {"rows": 1, "columns": {"errors": {"offsets": [0, -1]}}}],
                ],
            }
        ],
    ],
)
def test_what_is_no_row_is_refused(content: Any) -> None:
    with pytest.raises(ClosingRowsError):
        rows_of(packed(content))


def test_what_is_not_compressed_is_refused() -> None:
    with pytest.raises(ClosingRowsError):
        rows_of(b"no rows")
