from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.render.wireshark import comments_of, display_filter
from kanalyze.tables.columns.block import RowBlock
from tests.support import rows as sample_rows
from tests.support.captures import path

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
