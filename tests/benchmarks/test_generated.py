from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kanalyze
from benchmarks import captures, generated
from tests.support.packets import pcap_file, timed

if TYPE_CHECKING:
    from pathlib import Path

CONNECTIONS, BUSY, ROUNDS = 30, 2, 3


def test_most_connections_that_are_idle_say_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "IDLE_CONNECTIONS", CONNECTIONS)
    monkeypatch.setattr(generated, "IDLE_BUSY", BUSY)
    monkeypatch.setattr(generated, "IDLE_ROUNDS", ROUNDS)
    target = tmp_path / "idle.pcap"
    target.write_bytes(pcap_file(timed(generated.idle(), 1_000_000)))
    rows = list(kanalyze.requests(str(target)))
    assert {row.status for row in rows} == {"ok"}
    assert sum(row.api_name == "Produce" for row in rows) == BUSY * ROUNDS * 20
    assert sum(row.api_name == "Heartbeat" for row in rows) < (CONNECTIONS - BUSY) * ROUNDS / 2
    assert len({row.connection for row in rows}) == CONNECTIONS
    assert not list(kanalyze.anomalies(str(target)))


@pytest.mark.parametrize("kind", [captures.TLS, *captures.MORE_OF_TLS])
def test_every_kind_of_tls_is_read_with_its_key_log(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "SHAPES", {"tls-bulk": (1, 2, 90_000), "tls": (2, 5, 700)})
    target = tmp_path / f"{kind}.pcap"
    target.write_bytes(pcap_file(timed(generated.tls(kind, target))))
    keys = captures.keys_of(kind, tmp_path)
    rows = list(kanalyze.requests(str(target), keylog=str(keys)))
    assert [row.api_name for row in rows] == ["Produce"] * (2 if "bulk" in kind else 10)
    assert not list(kanalyze.requests(str(target)))
