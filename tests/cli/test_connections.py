from __future__ import annotations

import json

import pyarrow.parquet as pq

from kanalyze.cli.main import main
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS
from tests.support.captures import analysis, path


def listed(capsys, *arguments: str) -> list[dict[str, object]]:
    assert main(["connections", "--format", "jsonl", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_connection_has_a_row_that_counts_its_requests(capsys) -> None:
    rows, quality = analysis("basics")
    connections = listed(capsys, str(path("basics")))
    assert len(connections) == quality.connections
    assert sum(row["requests"] for row in connections) == len(rows)  # type: ignore[misc]
    assert {row["connection"] for row in connections} == {row.connection for row in rows}
    assert {row["protocol"] for row in connections} == {"kafka"}


def test_tls_is_recognized_by_content(capsys) -> None:
    protocols = [row["protocol"] for row in listed(capsys, str(path("tls")))]
    assert protocols.count("tls") == analysis("tls")[1].tls_connections


def test_filters_apply_to_clients_and_times(capsys) -> None:
    capture = str(path("basics"))
    everything = listed(capsys, capture)
    some = listed(capsys, capture, "--client-id", "kafka_python-*")
    assert 0 < len(some) < len(everything)
    assert all(str(row["client_id"]).startswith("kafka_python-") for row in some)
    assert listed(capsys, capture, "--client-ip", "203.0.113.0/24") == []
    middle = sorted(int(str(row["start_ns"])) for row in everything)[len(everything) // 2]
    until = listed(capsys, capture, "--until", f"{middle / 10**9:.9f}")
    assert 0 < len(until) < len(everything)


def test_a_table_and_parquet_are_written(tmp_path, capsys) -> None:
    assert main(["connections", str(path("basics"))]) == 0
    assert capsys.readouterr().out.split()[:3] == ["start", "connection", "protocol"]
    target = tmp_path / "connections.parquet"
    assert main(["connections", str(path("basics")), "-o", str(target)]) == 0
    table = pq.read_table(target)
    assert table.column_names == [column.name for column in with_times(CONNECTION_COLUMNS)]
    assert table.num_rows == analysis("basics")[1].connections
