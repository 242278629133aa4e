"""The tables groups, metadata and records match tables made from the output of `decode`."""

from __future__ import annotations

import functools
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.api.inputs import make_filter
from kanalyze.api.tables import fill
from kanalyze.common import forked
from kanalyze.queries.database import Database
from kanalyze.queries.saved import ROWS
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.cluster import CARRIED_NAMES
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.cluster import fields
from tests.support.captures import NAMES, in_turn, often, path, request_log
from tests.support.plain_cluster import (
    GROUP_COLUMNS,
    METADATA_COLUMNS,
    plain_groups,
    plain_metadata,
    topic_names,
)
from tests.support.row_blocks import matches
from tests.support.traffic import (
    TO_CLIENT,
    Line,
    answers,
    asks,
    body,
    capture_of,
    produce,
    produce_answer,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.api.library import Rows

OFTEN = ("basics", "groups", "errors", "old-0-8-2-2", "snaplen", "transactions")
CHECKED_COLUMNS = {"groups": GROUP_COLUMNS, "metadata": METADATA_COLUMNS}
FILTERS: list[dict[str, Any]] = [
    {"api": ("OffsetCommit", "Metadata")},
    {"client_id": ("*-1",)},
    {"group": ("*",)},
    {"topic": ("groups-*", "SRIJ*")},
    {"errors": True},
    {"broker": ("127.0.0.1:9092",), "since": "2026-11-20T22:46:45"},
    {"until": "2026-11-20T22:46:50"},
]


def tables(capture: str, *more: str, **settings: Any) -> dict[str, list[dict[str, Any]]]:
    """The lines of the table requests, and of some other tables."""
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([path(capture)], **settings), more)
        names = ("requests", *more)
        return {name: database.ask(f"FROM {ROWS}.{name}").to_pylist() for name in names}


@functools.cache
def messages(capture: str, **options: Any) -> list[dict[str, Any]]:
    return list(kanalyze.decode(path(capture), **options))


def plain(capture: str, found: list[dict[str, Any]]) -> dict[str, list[tuple[int, dict[str, Any]]]]:
    names = topic_names(messages(capture))
    return {"groups": plain_groups(found, names), "metadata": plain_metadata(found, names)}


def lines_of(table: str, lines: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    return [
        (line["request_id"], {name: line[name] for name in CHECKED_COLUMNS[table]})
        for line in lines
    ]


@pytest.mark.few(3)
@pytest.mark.parametrize("name", often(NAMES, OFTEN))
def test_lines_of_commits_are_left_out_for_queries_that_read_those_of_requests(name: str) -> None:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        names = {column.name for table in TABLES.values() for column in table.columns}
        fill(database, Analysis([path(name)]), ["groups"], names)
        left = database.ask("SELECT event, group_id, error_code FROM groups").to_pylist()
    lines = tables(name, "groups")["groups"]
    others = [line for line in lines if line["event"] != "commit"]
    assert left == [{key: line[key] for key in left[0]} for line in others] if left else not others


@pytest.mark.few(3)
@pytest.mark.parametrize("name", often(NAMES, OFTEN))
def test_lines_match_the_decoded_messages(name: str) -> None:
    found, expected = tables(name, *CHECKED_COLUMNS), plain(name, messages(name))
    for table in CHECKED_COLUMNS:
        assert lines_of(table, found[table]) == expected[table]


def test_the_captures_have_every_kind_of_fact() -> None:
    events, kinds = set(), set()
    for name in NAMES:
        expected = plain(name, messages(name))
        events |= {line["event"] for _, line in expected["groups"]}
        kinds |= {line["kind"] for _, line in expected["metadata"]}
    assert events == {"join", "sync", "leave", "heartbeat", "commit", "fetch_offsets"}
    assert kinds == {"broker", "coordinator", "partition", "topic", "versions"}


@pytest.mark.parametrize("capture", ["groups", "next-groups", "basics"])
def test_a_line_copies_the_columns_of_its_request(capture: str) -> None:
    found = tables(capture, *CHECKED_COLUMNS)
    requests = {row["request_id"]: row for row in found["requests"]}
    assert list(requests) == list(range(1, len(requests) + 1))
    for table in CHECKED_COLUMNS:
        assert found[table]
        for line in found[table]:
            request = requests[line["request_id"]]
            assert {name: line[name] for name in CARRIED_NAMES} == {
                name: request[name] for name in CARRIED_NAMES
            }


def test_events_of_groups_match_the_log_of_the_broker() -> None:
    """The log was written by the broker itself."""
    for name in ("groups", "next-groups", "basics", "foreign", "transactions", "waits"):
        log = [{**entry, "wire": "kafka"} for entry in request_log(name)]
        theirs = Counter(repr(line) for _, line in plain_groups(log, topic_names(messages(name))))
        made = lines_of("groups", tables(name, "groups")["groups"])
        ours = Counter(repr(line) for _, line in made)
        assert ours == theirs


@pytest.mark.few(3)
@pytest.mark.parametrize("conditions", FILTERS, ids=str)
@pytest.mark.parametrize("jobs", often([1, 3], [1]))
def test_a_line_is_selected_with_its_request(
    conditions: dict[str, Any], jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "_MIN_BYTES", 0)
    row_filter = make_filter(None, **conditions)
    rows = list(kanalyze.requests(path("groups")))
    chosen = [matches(row_filter, row) for row in rows]
    assert any(chosen)
    assert not all(chosen)
    passed = [
        message for message, is_chosen in zip(messages("groups"), chosen, strict=True) if is_chosen
    ]
    expected = plain("groups", passed)
    found = tables(
        "groups", *CHECKED_COLUMNS, row_filter=make_filter(None, **conditions), jobs=jobs
    )
    assert len(found["requests"]) == len(passed)
    for table in CHECKED_COLUMNS:
        assert lines_of(table, found[table]) == expected[table]


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "jobs"), in_turn(["basics", "codecs", "errors"], [1, 2]))
def test_records_match_their_command(name: str, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "_MIN_BYTES", 0)
    found = tables(name, "records", jobs=jobs)["records"]
    assert found == stored(kanalyze.records(path(name)), found)
    assert found


def test_a_filter_applies_to_records() -> None:
    row_filter = make_filter(None, api=("Fetch",), topic=("basics-*1",))
    found = tables("basics", "records", row_filter=row_filter)["records"]
    expected = kanalyze.records(path("basics"), api="Fetch", topic="basics-*1")
    assert found == stored(expected, found)


def stored(rows: Rows[Any], lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the columns of lines only: rows have timestamps too, on request."""
    return [{name: row[name] for name in lines[0]} for row in rows.to_arrow().to_pylist()]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(NAMES, ("groups", "snaplen", "transactions")))
def test_rows_of_requests_are_the_same_with_every_table(name: str) -> None:
    everything = tables(name, "groups", "metadata", "records")["requests"]
    assert everything == tables(name)["requests"]


@pytest.mark.few(1)
@pytest.mark.parametrize(("table", "jobs"), in_turn(CHECKED_COLUMNS, [1, 3]))
def test_the_library_gives_the_same_rows(
    table: str, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "_MIN_BYTES", 0)
    rows = getattr(kanalyze, table)(path("groups"), client_id="member-*", jobs=jobs)
    found = tables("groups", table, row_filter=make_filter(None, client_id=("member-*",)))[table]
    assert found
    assert stored(rows, found) == found
    assert [row.request_id for row in rows] == [line["request_id"] for line in found]
    assert [row._fields for row in rows] == [tuple(found[0])] * len(found)
    assert rows.quality.packets == 458


@pytest.mark.parametrize("seed", often(range(6), range(3)))
def test_corrupt_bytes_raise_nothing(seed: int, tmp_path: Path) -> None:
    """Readable parts still give lines: each has a request, and values that fit the columns."""
    random = Random(seed)
    data = bytearray(path("groups").read_bytes())
    for _ in range(400):
        data[random.randrange(24, len(data))] ^= 1 << random.randrange(8)
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(data)
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([broken]), ["groups", "metadata", "records"])
        for table in CHECKED_COLUMNS:
            unmatched = f"FROM {table} ANTI JOIN requests USING (request_id, capture, connection)"
            assert database.ask(unmatched).num_rows == 0


def test_a_body_with_too_many_values_gives_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "_MAX_CELLS", 20)
    found = tables("groups", *CHECKED_COLUMNS)
    assert len(found["requests"]) == len(messages("groups"))
    assert len(found["metadata"]) < len(plain("groups", messages("groups"))["metadata"])


def asked_for_versions(version: int, lost: slice | None) -> bytes:
    """A connection that begins with ApiVersions; some bytes of the response are not captured."""
    packets: list[bytes] = []
    line = Line(packets).open()
    apis = [{"apiKey": key, "minVersion": key, "maxVersion": 2 * key} for key in range(50)]
    answer = answers(18, version, 1, body(18, "response", version, apiKeys=apis, throttleTimeMs=7))
    line.client(asks(18, version, 1, body(18, "request", version)))
    if lost is None:
        line.broker(answer)
    else:
        line.broker(answer[: lost.start]).loses(TO_CLIENT, lost.stop - lost.start)
        line.broker(answer[lost.stop :])
    for number in (2, 3):
        line.client(produce(number, 3)).broker(produce_answer(number, 3))
    return capture_of(packets)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_list_of_versions_with_a_hole_changes_no_row(version: int, tmp_path: Path) -> None:
    file = tmp_path / "versions.pcap"
    for lost, lines in ((None, 1), (slice(40, 100), 0)):
        file.write_bytes(asked_for_versions(version, lost))
        rows = []
        for tables in ((), ("metadata",)):
            with Database(max_memory_bytes=1 << 28, threads=1) as database:
                fill(database, Analysis([str(file)]), tables)
                rows.append(database.ask(f"FROM {ROWS}.requests").to_pylist())
        assert rows[0] == rows[1]
        assert (rows[0][0]["api_name"], rows[0][0]["status"]) == ("ApiVersions", "ok")
        assert rows[0][0]["throttle_time_ms"] == (7 if version else None)
        announced = [line.announced for line in kanalyze.metadata(file)]
        assert len(announced) == lines
        assert announced == [] or announced[0].startswith("0:0-0 1:1-2 2:2-4 3:3-6 ")
