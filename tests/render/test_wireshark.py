from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.render.wireshark import comments_of, display_filter, filter_lines
from kanalyze.tables.columns.block import RowBlock
from tests.support import rows as sample_rows
from tests.support.captures import FOLDER, path

if TYPE_CHECKING:
    from kanalyze.spec.rows.requests import Row


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([7], "{7}"),
        ([91, 81, 91], "{81, 91}"),
        ([3, 1, 2], "{1..3}"),
        ([1, 2, 4, 6, 7, 8], "{1..2, 4, 6..8}"),
    ],
)
def test_consecutive_numbers_are_a_range(numbers: list[int], text: str) -> None:
    assert display_filter(numbers) == f"frame.number in {text}"


def test_tshark_selects_the_packets_by_the_filter(capsys) -> None:
    assert main(["requests", "--wireshark", "--errors", str(path("errors"))]) == 0
    (packet_filter,) = capsys.readouterr().out.splitlines()
    rows = kanalyze.requests(path("errors"), errors=True)
    expected = {number for row in rows for number in (row.request_packet, row.response_packet)}
    command = ["tshark", "-r", str(path("errors")), "-Y", packet_filter, "-T", "fields"]
    tshark = subprocess.run(
        [*command, "-e", "frame.number"], check=True, capture_output=True, text=True
    )
    assert set(map(int, tshark.stdout.split())) == expected - {None}


def test_each_of_several_captures_has_its_own_filter(tmp_path, capsys) -> None:
    captures = [str(path("errors")), str(path("basics"))]
    assert main(["requests", "--wireshark", "--api", "Produce", *captures]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for capture in captures:
        rows = list(kanalyze.requests(capture, api="Produce"))
        numbers = {number for row in rows for number in (row.request_packet, row.response_packet)}
        assert f"{capture}: {display_filter(n for n in numbers if n is not None)}" in lines


def test_the_option_wireshark_excludes_formats(capsys) -> None:
    assert main(["requests", "--wireshark", "--format", "csv", str(path("errors"))]) == 2
    assert "--wireshark" in capsys.readouterr().err


def test_the_report_has_the_filter_of_its_slowest_requests(capsys) -> None:
    assert main(["report", "--sections", "slowest", str(path("errors"))]) == 0
    text = " ".join(capsys.readouterr().out.split())
    slowest = kanalyze.report(path("errors"))["slowest"]
    columns = ("request_packet", "response_packet")
    numbers = [item[column] for item in slowest for column in columns]
    assert f"Wireshark: {display_filter(numbers)}" in text


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            sample_rows.failed("t", 6, "X", client_id="a\x1b[1m"),
            "Produce v9; correlation id 7; client a\\u001b[1m; error; X; latency 2 ms",
        ),
        (sample_rows.unanswered(client_id=None), "Fetch v12; correlation id 7; unanswered"),
        (sample_rows.orphan(), "?; correlation id 7; orphan response"),
        (
            sample_rows.row(api_name=None, api_key=99, latency_ns=None),
            "API 99 v9; correlation id 7; client app; ok",
        ),
    ],
)
def test_comments_describe_the_request(row: Row, text: str) -> None:
    assert comments_of(RowBlock.of_rows([row, row._replace(status="ok"), row])) == [
        text,
        text.replace(row.status.replace("_", " "), "ok"),
        text,
    ]


def test_comments_are_bounded() -> None:
    row = sample_rows.failed("t", 6, "X", client_id="\n" * 40_000)
    (comment,) = comments_of(RowBlock.of_rows([row._replace(errors=row.errors * 10_000)]))
    assert len(comment) < 2000


def test_a_filter_names_its_file_where_several_were_read() -> None:
    packets = [("a.pcap", 3), ("a.pcap", 4)]
    assert list(filter_lines(packets)) == ["frame.number in {3..4}"]
    assert list(filter_lines(packets, of_several=True)) == ["a.pcap: frame.number in {3..4}"]


def test_packets_of_several_captures_have_their_file(capsys, tmp_path, monkeypatch) -> None:
    for name in ("errors.pcapng", "fault-killed.pcap"):
        shutil.copy(FOLDER / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["requests", "--client-id", "checkout", "."]) == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert title.endswith("in file")
    assert all(line.endswith("fault-killed.pcap") for line in lines)
    assert main(["requests", "--client-id", "checkout", "fault-killed.pcap"]) == 0
    assert "in file" not in capsys.readouterr().out
    assert main(["anomalies", "."]) == 0
    assert "in file" in capsys.readouterr().out.splitlines()[0]
    assert main(["report", "--client-id", "checkout", "--sections", "slowest", "."]) == 0
    report = capsys.readouterr().out
    assert re.search(r"^latency .* packets +in file", report, re.MULTILINE)
    assert "Wireshark: fault-killed.pcap: frame.number in {" in report
    assert "kanalyze requests . --finding unanswered:1 --client-id checkout" in report
    assert "; packet 57 of fault-killed.pcap" in " ".join(report.split())
    assert main(["requests", "--client-id", "checkout", "--wireshark", "."]) == 0
    assert capsys.readouterr().out.startswith("fault-killed.pcap: frame.number in {")
