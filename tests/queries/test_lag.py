"""Lag of consumer groups, compared with plain Python and with what clients counted."""

from __future__ import annotations

import random
from collections import namedtuple
from typing import Any, NamedTuple

import pytest

import kanalyze
from kanalyze.export.arrow import BatchMaker
from kanalyze.queries.database import Database
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.cluster import GROUP_COLUMNS, AssignedPartition
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.spec.rows.views import LAG_COLUMNS
from tests.support.captures import path, truth
from tests.support.rows import START_NS, fetch, partition, row

SECOND = 10**9
GroupRow: Any = namedtuple("GroupRow", [column.name for column in GROUP_COLUMNS])  # type: ignore[misc]
NAMES = [column.name for column in LAG_COLUMNS]
IN_REQUESTS = ("produce", "fetch", "commit")
"""The kinds of events that are read in requests; the others are read in the table of groups."""


class Event(NamedTuple):
    """Something that a response told."""

    at_ns: int
    kind: str
    """produce, fetch, commit, fetch_offsets, sync or leave."""
    place: tuple[str, int] = ("t", 0)
    offset: int | None = None
    count: int = 0
    group: str = "g"
    member: str | None = None


def requests_of(event: Event) -> Any:
    topic, number = event.place
    times = {"request_start_ns": event.at_ns - 1000, "response_start_ns": event.at_ns}
    if event.kind == "produce":
        item = partition(
            topic, number, base_offset=event.offset, record_count=event.count, high_watermark=None
        )
        return row(partitions=[item], **times)
    if event.kind == "commit":
        item = partition(topic, number, base_offset=event.offset, record_count=None)
        commit = {"api_key": 8, "api_name": "OffsetCommit", "group_id": event.group}
        return row(partitions=[item], **commit, **times)
    item = partition(topic, number, base_offset=None, high_watermark=event.offset)
    return fetch(partitions=[item], **times)


def group_row_of(event: Event) -> Any:
    topic, number = event.place
    values: dict[str, Any] = {column.name: None for column in GROUP_COLUMNS}
    values |= {"protocols": (), "subscribed_topics": (), "assigned": (), "capture": "c"}
    values |= {
        "request_id": 1,
        "connection": "a>b",
        "connection_number": 1,
        "client_ip": f"ip of {event.member}",
        "client_id": f"id of {event.member}",
        "broker_ip": "b",
        "broker_port": 9092,
        "api_name": "x",
        "status": "ok",
        "event": event.kind,
        "group_id": event.group,
        "member_id": event.member,
        "request_start_ns": event.at_ns - 1000,
        "response_start_ns": event.at_ns,
        "error_code": 0,
    }
    if event.kind == "fetch_offsets":
        values |= {"topic": topic, "partition": number, "committed_offset": event.offset}
    if event.kind == "sync":
        values["assigned"] = (AssignedPartition(topic, None, number),)
    return GroupRow(**values)


def lag_of(events: list[Event]) -> list[dict[str, Any]]:
    """What SQL says."""
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        makers = {"requests": BatchMaker(COLUMNS), "groups": BatchMaker(GROUP_COLUMNS)}
        for table, maker in makers.items():
            database.create(table, maker.schema)
        requests = [requests_of(each) for each in events if each.kind in IN_REQUESTS]
        others = [group_row_of(each) for each in events if each.kind not in IN_REQUESTS]
        database.insert("requests", makers["requests"].of_rows(requests))
        database.insert("groups", makers["groups"].of_rows(others))
        asked = f"SELECT {', '.join(NAMES)} FROM lag ORDER BY group_id, topic, partition, time_ns"
        return database.ask(asked).to_pylist()


def plain_lag(events: list[Event]) -> list[dict[str, Any]]:
    """The same, one event after the other."""
    ends: dict[Any, list[tuple[int, int]]] = {}
    committed: dict[Any, int | None] = {}
    members: dict[Any, str | None] = {}
    lines: dict[Any, dict[str, Any]] = {}
    consumed = {
        (each.group, *each.place)
        for each in events
        if each.kind in ("commit", "fetch_offsets", "sync")
    }
    left = {each.member: each.at_ns - 1000 for each in events if each.kind == "leave"}
    for event in sorted(events):
        place, key = event.place, (event.group, *event.place)
        told = [key]
        if event.kind in ("produce", "fetch"):
            assert event.offset is not None
            known = ends.setdefault(place, [])
            new = {event.offset, event.offset + event.count} - {end for end, _ in known}
            known += ((end, event.at_ns) for end in new)
            told = [each for each in consumed if each[1:] == place] if new else []
        elif event.kind == "sync":
            members[key] = event.member
        elif event.kind == "leave":
            continue
        else:
            committed[key] = event.offset
        for each in told:
            second = event.at_ns // SECOND
            lines[*each, second] = line_of(
                each, event.at_ns, ends.get(each[1:], []), committed, members.get(each), left
            )
    return [lines[key] for key in sorted(lines)]


def line_of(
    key: Any,
    now_ns: int,
    ends: list[tuple[int, int]],
    committed: dict[Any, int | None],
    member: str | None,
    left: dict[Any, int],
) -> dict[str, Any]:
    offset = committed.get(key)
    log_end = max((end for end, _ in ends), default=None)
    lag = lag_ns = unknown = None
    if offset is None:
        unknown = "none_committed" if key in committed else "no_offset_seen"
    elif log_end is None:
        unknown = "no_log_end_seen"
    elif log_end < offset:
        unknown = "log_end_is_old"
    else:
        lag = log_end - offset
        if lag == 0:
            lag_ns = 0
        elif min(end for end, _ in ends) > offset:
            unknown = "produced_before_capture"
        else:
            lag_ns = now_ns - min(at_ns for end, at_ns in ends if end > offset)
    if member is not None and left.get(member, now_ns + 1) <= now_ns:
        member = None
    values = (*key, now_ns, offset, log_end, lag, lag_ns, member)
    who = (None, None) if member is None else (f"id of {member}", f"ip of {member}")
    return dict(zip(NAMES, (*values, *who, unknown), strict=True))


def random_events(dice: random.Random) -> list[Event]:
    """Producers, consumers and members, some of them unseen."""
    events = []
    now_ns = START_NS
    logs = {(topic, number): dice.choice([0, 0, 7]) for topic in "ab" for number in (0, 1)}
    silent = dice.sample(sorted(logs), dice.randrange(3))
    for number in range(dice.randint(1, 60)):
        now_ns += dice.randint(1, SECOND)
        place, group = dice.choice(sorted(logs)), dice.choice("gh")
        kind = dice.choice(["produce", "produce", "fetch", "commit", "commit", "fetch_offsets"])
        if dice.random() < 0.2:
            member = f"{group}-{number}"
            events.append(Event(now_ns, "sync", place, group=group, member=member))
            if dice.random() < 0.3:
                later_ns = now_ns + dice.randint(1, 9 * SECOND)
                events.append(Event(later_ns, "leave", group=group, member=member))
        elif kind == "produce":
            count = dice.randint(0, 9)
            if place not in silent and dice.random() < 0.8:
                events.append(Event(now_ns, kind, place, logs[place], count))
            logs[place] += count
        elif kind == "fetch":
            if place not in silent:
                events.append(Event(now_ns, kind, place, logs[place]))
        else:
            offset = dice.choice([None, dice.randint(0, logs[place]), logs[place]])
            if offset is not None or kind == "fetch_offsets":
                events.append(Event(now_ns, kind, place, offset, group=group))
    return events


@pytest.mark.parametrize("seed", range(15))
def test_lag_is_that_of_plain_python(seed: int) -> None:
    events = random_events(random.Random(seed))
    assert lag_of(events) == plain_lag(events)


def test_the_random_events_have_every_reason() -> None:
    lines = [line for seed in range(15) for line in plain_lag(random_events(random.Random(seed)))]
    assert {line["unknown"] for line in lines} == {
        *(None, "none_committed", "no_offset_seen", "no_log_end_seen", "log_end_is_old"),
        "produced_before_capture",
    }
    assert any(line["lag_ns"] for line in lines)
    assert any(line["member_id"] for line in lines)


def test_offsets_of_any_size_are_no_error() -> None:
    huge = 2**63 - 1
    events = [
        Event(START_NS, "produce", offset=huge, count=9),
        Event(START_NS + 1, "fetch", offset=huge),
        Event(START_NS + 2, "commit", offset=huge),
        Event(START_NS + 3, "produce", offset=5, count=huge),
        Event(START_NS + 4, "commit", offset=3),
    ]
    (line,) = lag_of(events)
    assert (line["committed_offset"], line["log_end_offset"], line["lag"]) == (3, 5, 2)


def test_a_group_that_falls_behind_is_as_far_behind_as_the_clients_counted() -> None:
    """Both clients counted what they did, and the consumer committed what it had consumed."""
    counted = truth("fault-lag")
    produced = sum(counted["produced_records"]["orders"].values())
    lines = kanalyze.sql(str(path("fault-lag")), "FROM lag ORDER BY time_ns").to_pylist()
    last = lines[-1]
    assert last["log_end_offset"] == produced
    assert last["committed_offset"] == sum(counted["client_consumed"].values())
    assert last["lag"] == produced - last["committed_offset"]
    assert last["lag_ns"] > 10 * SECOND
    known = [line["lag_ns"] for line in lines if line["lag"] is not None]
    assert known == sorted(known)
    assert {line["client_id"] for line in lines if line["lag"] is not None} == {"indexer"}


def test_the_question_is_for_the_latest_lines() -> None:
    lines = kanalyze.sql(str(path("groups")), "lag").to_pylist()
    assert [(line["group_id"], line["partition"], line["lag"]) for line in lines] == [
        *(("groups-classic", number, 0) for number in range(4)),
        *(("groups-next", number, 0) for number in range(4)),
    ]
    # The members of the classic group left.
    assert [line["client_id"] for line in lines] == [*[None] * 4, *["member-next"] * 4]


def test_the_columns_are_those_declared() -> None:
    names = kanalyze.sql(str(path("groups")), "FROM lag").column_names
    assert names == [column.name for column in with_times(LAG_COLUMNS)]
