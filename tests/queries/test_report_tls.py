"""The tables about TLS in the report match plain Python over the rows."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.export.arrow import BatchMaker
from kanalyze.model.tcp import Endpoint
from kanalyze.queries.database import Database
from kanalyze.queries.report import report_of
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.quality import CaptureQuality
from tests.support import tls_captures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kanalyze.spec.rows.connections import ConnectionRow

CAPTURES = ("tls12-mutual", "tls12-resumed", "tls13-expired", "tls-other-port", "tls12-late")


def rows_of(name: str, **options: Any) -> list[ConnectionRow]:
    return list(kanalyze.connections(tls_captures.path(name), **options))


def report(rows: Sequence[ConnectionRow]) -> dict[str, Any]:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        for name in ("requests", "connections"):
            maker = BatchMaker(TABLES[name].columns)
            database.create(name, maker.schema)
            if name == "connections":
                database.insert(name, maker.of_rows(rows))
        return report_of(database, CaptureQuality())


def lower_median(values: Iterable[int | None]) -> int | None:
    known = sorted(value for value in values if value is not None)
    return known[(len(known) + 1) // 2 - 1] if known else None


def total(values: Iterable[int | bool | None]) -> int | None:
    known = [int(value) for value in values if value is not None]
    return sum(known) if known else None


def plain_tls(rows: Sequence[ConnectionRow]) -> list[dict[str, Any]]:
    by_key = defaultdict(list)
    for row in rows:
        if row.tls_decrypted is not None:
            broker = str(Endpoint(row.broker_ip, row.broker_port))
            by_key[broker, row.tls_version, row.tls_cipher_suite].append(row)
    lines = [
        {
            **dict(zip(("broker", "tls_version", "tls_cipher_suite"), key, strict=True)),
            "connections": len(members),
            "decrypted": sum(row.tls_decrypted is True for row in members),
            "failed": sum(row.tls_failure is not None for row in members),
            "resumed": total(row.tls_resumed for row in members),
            "mutual": total(row.tls_mutual for row in members),
            "handshake_p50_ns": lower_median(row.tls_handshake_ns for row in members),
            "client_bytes": sum(row.client_payload_bytes for row in members),
            "broker_bytes": sum(row.broker_payload_bytes for row in members),
            "estimated_requests": total(row.estimated_requests for row in members),
            "estimated_response_time_p50_ns": lower_median(
                row.estimated_response_time_median_ns for row in members
            ),
        }
        for key, members in by_key.items()
    ]
    return sorted(lines, key=lambda line: (-line["connections"], line["broker"]))


def plain_certificates(rows: Sequence[ConnectionRow]) -> list[dict[str, Any]]:
    by_key = defaultdict(list)
    for row in rows:
        broker = ("broker", *row[row._fields.index("tls_certificate_subject") :][:3])
        client = ("client", *row[row._fields.index("tls_client_certificate_subject") :][:3])
        for key in (broker, client):
            if key[1] is not None:
                by_key[key].append(row.start_ns)
    return [
        {
            **dict(zip(("sent_by", "subject", "issuer", "not_after_ns"), key, strict=True)),
            "connections": len(starts),
            "expired": key[3] < max(starts),
        }
        for key, starts in sorted(by_key.items(), key=lambda item: item[0][3])
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CAPTURES)
def test_figures_of_tls_match_plain_python(name: str) -> None:
    rows = rows_of(name)
    found = report(rows)
    assert found["tls"] == plain_tls(rows)
    assert found["tls_certificates"] == plain_certificates(rows)


def test_figures_of_decrypted_tls_match_plain_python() -> None:
    rows = rows_of("tls13-mutual", keylog=tls_captures.keylog("tls13-mutual"))
    found = report(rows)
    assert found["tls"] == plain_tls(rows)
    assert found["tls_certificates"] == plain_certificates(rows)
    [line] = found["tls"]
    assert line["decrypted"] == line["mutual"] == line["connections"] == 7
    assert {certificate["subject"] for certificate in found["tls_certificates"]} == {
        "CN=client",
        "CN=localhost",
    }


def test_without_tls_there_are_no_lines() -> None:
    found = report([])
    assert found["tls"] == found["tls_certificates"] == []
