"""Recorded packets, as tshark and capinfos read them.

Without tshark this file is not collected (see conftest.py, which says so).
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.live.recorder.files import PcapngWriter
from kanalyze.live.recorder.packet_recorder import PacketRecorder
from kanalyze.render.wireshark import comments_of
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.filters import RowFilter
from tests.support.captures import path
from tests.support.waiting import LONG_S
from tests.support.watched import watch

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("recorded") / "recorded.pcapng"
    writer = PcapngWriter(target, interface="lo")
    watch(path("errors"), PacketRecorder(writer, [RowFilter.parse(errors=True)]))
    assert writer.packets
    return target


def lines(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=LONG_S)
    return done.stdout.splitlines()


def test_capinfos_reports_packets_in_order_of_time(recorded: Path) -> None:
    summary = dict(
        line.split(":", 1)
        for line in lines("capinfos", "-M", str(recorded))
        if line.count(":") >= 1
    )
    assert "pcapng" in summary["File type"]
    assert summary["Strict time order"].strip() == "True"
    assert "Name = lo" in "\n".join(lines("capinfos", str(recorded)))
    assert "kanalyze" in "\n".join(lines("capinfos", str(recorded)))


def test_tshark_shows_the_comments_at_the_packets_of_requests(recorded: Path) -> None:
    expected = [
        (str(row.request_start_ns), comments_of(RowBlock.of_rows([row]))[0])
        for row in kanalyze.requests(path("errors"), errors=True)
    ]
    fields = ("-T", "fields", "-E", "aggregator=|", "-e", "frame.time_epoch", "-e", "frame.comment")
    shown = lines("tshark", "-r", str(recorded), "-Y", "frame.comment", *fields)
    comments_shown = [
        (time.replace(".", ""), comment)
        for time, comments in (line.split("\t") for line in shown)
        for comment in comments.split("|")
    ]
    assert sorted(comments_shown) == sorted(expected)


def test_tshark_reports_no_malformed_packets(recorded: Path) -> None:
    original = lines("tshark", "-r", str(path("errors")), "-T", "fields", "-e", "frame.time_epoch")
    times = lines("tshark", "-r", str(recorded), "-T", "fields", "-e", "frame.time_epoch")
    assert len(times) == len(set(times))
    assert {time.rstrip("0") for time in times} <= {time.rstrip("0") for time in original}
    assert lines("tshark", "-r", str(recorded), "-Y", "_ws.malformed && !kafka") == []
