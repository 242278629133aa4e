from __future__ import annotations

import csv
import json
from collections import Counter
from typing import TYPE_CHECKING

from kanalyze.cli.main import main
from kanalyze.spec.rows.anomalies import AnomalyRow
from tests.support import kafka as k
from tests.support.captures import path
from tests.support.traffic import Line, answers, asks, capture_of

if TYPE_CHECKING:
    from pathlib import Path


def listed(capsys, *arguments: str) -> list[dict[str, object]]:
    assert main(["anomalies", "--format", "jsonl", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_bytes_cut_by_the_snap_length_are_listed_by_direction(capsys) -> None:
    rows = listed(capsys, str(path("snaplen")), "--kind", "snapped_bytes")
    assert list(rows[0]) == list(AnomalyRow._fields)
    assert max(Counter((row["connection"], row["sender"]) for row in rows).values()) == 2
    assert {row["kind"] for row in rows} == {"snapped_bytes"}
    assert main(["report", "--json", "-", str(path("snaplen"))]) == 0
    quality = json.loads(capsys.readouterr().out)["quality"]
    assert sum(row["bytes"] for row in rows) == quality["snapped_bytes"]  # type: ignore[misc]
    assert quality["anomalies"]["snapped_bytes"] == {
        "count": len(rows),
        "bytes": quality["snapped_bytes"],
    }


def test_filters_apply_to_addresses_and_times(capsys) -> None:
    rows = listed(capsys, str(path("snaplen")))
    client = rows[-1]["client_ip"]
    assert listed(capsys, str(path("snaplen")), "--client-ip", str(client)) == rows
    assert listed(capsys, str(path("snaplen")), "--client-ip", "203.0.113.1") == []
    assert listed(capsys, str(path("snaplen")), "--broker", "127.0.0.1:1") == []
    late = str(int(rows[-1]["time_ns"]) // 10**9 + 1)  # type: ignore[call-overload]
    assert listed(capsys, str(path("snaplen")), "--since", late) == []
    assert listed(capsys, str(path("snaplen")), "--until", late) == rows


def test_a_cut_file_is_an_anomaly_that_names_it(tmp_path, capsys) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(path("mock").read_bytes()[:5000])
    (row,) = listed(capsys, str(cut), "--kind", "capture_truncated")
    assert row["stage"] == "capture"
    assert "cut.pcap" in str(row["detail"])


def test_a_table_and_a_file_are_written(tmp_path, capsys) -> None:
    assert main(["anomalies", str(path("snaplen"))]) == 0
    assert capsys.readouterr().out.split()[:3] == ["time", "packet", "anomaly"]
    target = tmp_path / "anomalies.csv"
    assert main(["anomalies", str(path("snaplen")), "-o", str(target)]) == 0
    with target.open() as file:
        assert next(csv.reader(file)) == list(AnomalyRow._fields)


def test_an_unknown_kind_is_reported_in_one_line(capsys) -> None:
    assert main(["anomalies", "--kind", "lost", "x.pcap"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "lost_bytes" in err


def damaged(tmp_path: Path) -> Path:
    """Write a capture with one bad message of each kind."""
    packets: list[bytes] = []
    line = Line(packets).open()
    for number in range(3):
        line.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    # A Metadata request of 2^24 topics, one with bytes after it, an unknown API and version.
    line.client(asks(3, 1, 10, b"\1\0\0\0")).broker(answers(3, 1, 10, b"\0\0\0\5"))
    line.client(asks(3, 1, 11, b"\0\0\0\0more")).broker(answers(3, 1, 11, b"\0" * 12))
    line.client(k.request(999, 0, 12, b"x")).broker(k.response(12, b"x"))
    line.client(k.request(12, 77, 13, b"\xff" * 9, tags=b"\0")).close()
    target = tmp_path / "damaged.pcap"
    target.write_bytes(capture_of(packets))
    return target


def test_details_are_the_problems_that_decode_reports(tmp_path, capsys) -> None:
    capture = str(damaged(tmp_path))
    rows = listed(capsys, capture)
    details: dict[object, list[object]] = {}
    for row in rows:
        details.setdefault(row["kind"], []).append(row["detail"])
    too_many = "an array of more elements than there are bytes"
    assert details["malformed_body"] == [
        f"topics, byte 22: {too_many}",
        f"brokers, byte 12: {too_many}",
    ]
    assert details["trailing_bytes"][0] == "byte 22: bytes after the message"
    assert set(details["unknown_api"]) == {"no definition has this API"}
    assert details["unknown_api_version"] == ["known are the versions 0-4"]
    assert main(["decode", capture]) == 0
    problems = [
        line[name]
        for line in map(json.loads, capsys.readouterr().out.splitlines())
        for name in ("requestProblem", "responseProblem")
        if name in line
    ]
    decoded = {(problem["kind"], problem["reason"]) for problem in problems}
    for kind, reason in decoded:
        assert any(str(detail).endswith(reason) for detail in details[kind]), (kind, reason)
    assert {kind for kind, _ in decoded} == details.keys() - {"unanswered_request"}


def test_tables_and_files_have_the_detail(tmp_path, capsys) -> None:
    capture = str(damaged(tmp_path))
    assert main(["anomalies", capture]) == 0
    assert "topics, byte 22: an array of more" in capsys.readouterr().out
    target = tmp_path / "anomalies.csv"
    assert main(["anomalies", capture, "-o", str(target)]) == 0
    with target.open() as file:
        details = [row["detail"] for row in csv.DictReader(file)]
    assert "topics, byte 22: an array of more elements than there are bytes" in details
