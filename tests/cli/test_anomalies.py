from __future__ import annotations

import csv
import json
from collections import Counter

from kanalyze.analysis.anomalies import AnomalyRow
from kanalyze.cli.main import main
from tests.support.captures import path


def listed(capsys, *arguments: str) -> list[dict[str, object]]:
    assert main(["anomalies", "--format", "jsonl", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_what_the_snap_length_cut_off_is_listed_by_direction(capsys) -> None:
    rows = listed(capsys, str(path("snaplen")), "--kind", "snapped_bytes")
    assert list(rows[0]) == list(AnomalyRow._fields)
    assert max(Counter((row["connection"], row["sender"]) for row in rows).values()) == 2
    assert {row["kind"] for row in rows} == {"snapped_bytes"}
    summed = main(["report", "--json", "-", str(path("snaplen"))])
    assert summed == 0
    quality = json.loads(capsys.readouterr().out)["quality"]
    assert sum(row["bytes"] for row in rows) == quality["snapped_bytes"]  # type: ignore[misc]
    assert quality["anomalies"]["snapped_bytes"] == {
        "count": len(rows),
        "bytes": quality["snapped_bytes"],
    }


def test_filters_on_ends_and_times_hold(capsys) -> None:
    rows = listed(capsys, str(path("snaplen")))
    client = rows[-1]["client_ip"]
    assert listed(capsys, str(path("snaplen")), "--client-ip", str(client)) == rows
    assert listed(capsys, str(path("snaplen")), "--client-ip", "203.0.113.1") == []
    assert listed(capsys, str(path("snaplen")), "--broker", "127.0.0.1:1") == []
    late = str(int(rows[-1]["time_ns"]) // 10**9 + 1)  # type: ignore[call-overload]
    assert listed(capsys, str(path("snaplen")), "--since", late) == []
    assert listed(capsys, str(path("snaplen")), "--until", late) == rows


def test_a_cut_file_is_an_anomaly_with_its_name(tmp_path, capsys) -> None:
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


def test_an_unknown_kind_is_one_line(capsys) -> None:
    assert main(["anomalies", "--kind", "lost", "x.pcap"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "lost_bytes" in told
