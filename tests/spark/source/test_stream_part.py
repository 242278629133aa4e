"""A task of a stream saves its state for the next one."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from kanalyze.batch.archive import continued_captures
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.capture.inputs import FoundCapture
from kanalyze.capture.merge import UNKNOWN_CAPTURE
from kanalyze.net.shard import Shard
from kanalyze.spark.source.readers import make_plan
from kanalyze.spark.source.stream_part import (
    StreamPartition,
    _with_checksum,
    read_stream_partition,
)
from tests.support import kafka as k
from tests.support.packets import pcap_file, segment, timed
from tests.support.traffic import Line

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from kanalyze.spec.rows.requests import Row


class Stream:
    """Runs one task after another, each with the next captures."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = SharedFolder(str(root / "state"))
        self.read = 0

    def read_batch(self, *contents: bytes, shard: Shard | None = None) -> list[Row]:
        """Read captures as the next batch; return its rows."""
        paths = []
        for data in contents:
            path = self.root / f"{self.read + len(paths)}"
            path.write_bytes(data)
            paths.append(FoundCapture(str(path)))
        end = self.read + len(paths)
        task = StreamPartition(self.read, end, shard or Shard(0, 1), tuple(paths))
        rows = [
            row
            for block in read_stream_partition(make_plan({}), task, self.folder)
            for row in block.rows()
        ]
        self.read = end
        return rows


def conversation() -> list[bytes]:
    packets: list[bytes] = []
    Line(packets).open().client(k.heartbeat(1), k.heartbeat(2)).broker(
        k.heartbeat_answer(1), k.heartbeat_answer(2)
    )
    return packets


def one_by_one() -> list[bytes]:
    """A capture for each packet."""
    packets = timed(conversation())
    return [pcap_file([packet]) for packet in packets]


def test_a_row_locates_packets_in_captures_of_earlier_tasks(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    captures = one_by_one()
    assert [stream.read_batch(capture) for capture in captures[:-2]] == [[]] * (len(captures) - 2)
    (row,) = stream.read_batch(captures[-2])
    assert (row.capture, row.request_packet, row.response_packet) == (str(tmp_path / "3"), 1, 1)
    (row,) = stream.read_batch(captures[-1])
    assert (row.capture, row.request_packet, row.response_packet) == (str(tmp_path / "4"), 1, 1)
    assert row.latency_ns == 2000


def test_one_batch_may_have_several_captures(tmp_path: Path) -> None:
    captures = one_by_one()
    stream = Stream(tmp_path)
    rows = stream.read_batch(*captures[:4]) + stream.read_batch(*captures[4:])
    assert [row.capture for row in rows] == [str(tmp_path / "3"), str(tmp_path / "4")]


def test_old_packet_locations_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continued_captures, "_MAX_RUNS", 1)
    stream = Stream(tmp_path)
    rows = [row for capture in one_by_one() for row in stream.read_batch(capture)]
    assert {(row.capture, row.request_packet) for row in rows} == {(UNKNOWN_CAPTURE, None)}
    assert [row.response_packet for row in rows] == [1, 1]


def test_a_batch_without_captures_keeps_the_state(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    captures = one_by_one()
    stream.read_batch(*captures[:5])
    task = StreamPartition(5, 6, Shard(0, 1), ())  # the capture was removed
    assert list(read_stream_partition(make_plan({}), task, stream.folder)) == []
    stream.read = 6
    (row,) = stream.read_batch(captures[5])
    assert (row.capture, row.request_packet, row.status) == (str(tmp_path / "3"), 1, "ok")


def test_connections_whose_state_is_of_another_version_are_closed(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    captures = one_by_one()
    assert stream.read_batch(*captures[:5]) == []
    name = "states/000000000005/0"
    data = stream.folder.read(name)
    assert data is not None
    body = data.partition(b"\n")[2]
    before, magic, state = body.partition(b"kanalyze-state ")
    stream.folder.write(name, _with_checksum(before + magic + b"99" + state[2:]))
    assert stream.folder.names("closed") == []
    first, second, *rest = stream.read_batch(*captures[5:])
    assert [row.capture for row in (first, second)] == [str(tmp_path / "3"), str(tmp_path / "4")]
    assert {row.status for row in (first, second)} == {"unanswered"}
    assert all(row.status == "orphan_response" for row in rest)
    reason = stream.folder.read("closed/000000000007-0.txt")
    assert reason is not None
    assert b"another version of kanalyze" in reason


def test_only_the_first_shard_reports_anomalies_of_a_capture(tmp_path: Path) -> None:
    whole = pcap_file(timed([segment(to_broker=True, seq=1, ack=1, payload=k.heartbeat(1))] * 2))
    for index in (0, 1):
        (tmp_path / f"{index}").mkdir()
        stream = Stream(tmp_path / f"{index}")
        stream.read_batch(whole[:-5], shard=Shard(index, 2))
        names = stream.folder.names("anomalies")
        assert names == (["000000000001.jsonl"] if index == 0 else [])
    data = SharedFolder(str(tmp_path / "0" / "state")).read("anomalies/000000000001.jsonl")
    assert data is not None
    kind, detail = json.loads(data)
    assert kind == "capture_truncated"
    assert detail.startswith(str(tmp_path / "0"))


def test_the_state_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    before = os.umask(0)
    try:
        for capture in one_by_one():
            stream.read_batch(capture)
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "state" / "states").rglob("*") if path.is_file()]
    assert files
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
