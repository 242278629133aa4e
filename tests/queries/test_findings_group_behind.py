"""A group whose commits fall behind, told by others: by what is produced, and by their fetches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.queries.test_findings import S, findings, request
from tests.support.rows import partition

if TYPE_CHECKING:
    from kanalyze.queries.finding import Finding
    from kanalyze.spec.rows.requests import Row


def commit(at_s: float, offset: int, index: int = 0, error_code: int = 0) -> Row:
    part = partition("orders", index, base_offset=offset, error_code=error_code)
    own = {"client_id": "indexer", "client_ip": "10.0.0.5", "group_id": "index"}
    return request(int(at_s * S), api_name="OffsetCommit", api_key=8, partitions=[part], **own)


def produced(at_s: float, offset: int, records: int, index: int = 0) -> Row:
    part = partition("orders", index, base_offset=offset, record_count=records)
    return request(int(at_s * S), api_name="Produce", client_id="shop", partitions=[part])


def fetched(at_s: float, high_watermark: int, client_id: str = "auditor", index: int = 0) -> Row:
    part = partition(
        "orders", index, base_offset=None, record_count=1, high_watermark=high_watermark
    )
    return request(
        int(at_s * S), api_name="Fetch", api_key=1, client_id=client_id, partitions=[part]
    )


def found(*rows: Row) -> list[Finding]:
    return findings(rows, only=["group_behind"])


def test_a_group_is_behind_what_is_produced() -> None:
    writes = [produced(second, 100 * second, 100) for second in range(20)]
    commits = [commit(0.5, 80), commit(8.5, 130), commit(15.5, 170)]
    [finding] = found(*writes, *commits)
    assert finding.what == (
        "1830 records behind in 1 partition, 1810 more than at the first commit, 18.5 s before the "
        "end; meanwhile 1900 written, and the group's commits went on by 90; the last of 3 commits "
        "3.5 s before the end"
    )
    expected: dict[str, Any] = {"group_id": "index", "topic": "orders", "client_id": "indexer"}
    assert finding.concerns == expected


def test_a_group_that_stopped_is_behind_what_others_fetch() -> None:
    fetches = [fetched(second, 5000 + 400 * second, index=3) for second in range(12)]
    fetches += [fetched(second, 5000 + 400 * second, index=4) for second in range(12)]
    followed = [commit(second, 5000 + 400 * second, 4) for second in range(12)]
    [finding] = found(*fetches, *followed, commit(1, 5400, 3))
    assert finding.what == (
        "4000 records behind in 1 partition, 4000 more than at the first commit, 10.0 s before the "
        "end; meanwhile 4000 written, and the group's commits went on by 0; the last of 1 commit "
        "10.0 s before the end"
    )


WRITES = [produced(second, 100 * second, 100) for second in range(20)]


@pytest.mark.parametrize(
    "rows",
    [
        [*WRITES, *(commit(second + 0.5, 100 * second) for second in range(20))],
        # It was far behind, and catches up.
        [*WRITES, commit(0.5, 0), *(commit(second + 0.5, 150 * second) for second in range(1, 13))],
        [*WRITES, commit(19.5, 0)],
        [*WRITES[:5], commit(0.2, 0)],
        # A refused commit says nothing of where the group is.
        [*WRITES, commit(0.5, 0, error_code=27)],
        # Nobody shows where the log ends.
        [commit(0.5, 0), commit(19, 1)],
        # Offsets beyond all numbers.
        [produced(1, 2**63 - 2, 100), produced(15, 2**63 - 1, 2**62), commit(1.5, 0)],
    ],
)
def test_a_group_that_follows_is_no_finding(rows: list[Row]) -> None:
    assert found(*rows) == []
