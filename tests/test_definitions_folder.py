"""``--definitions DIR``: a user's own messages, all the way from packets to rows."""

from __future__ import annotations

import io
import json
import struct
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.errors import DefinitionError
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import analysis, path
from tests.support.definitions import folder, message, next_fetch, vendor_folder
from tests.support.kafka import heartbeat, heartbeat_answer, request, response
from tests.support.messages import Generator, Writer
from tests.support.packets import pcap_file, segment, timed

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.spec.rows.requests import Row

VENDOR, FETCH = 1000, 1


def capture(*pairs: tuple[bytes, bytes]) -> bytes:
    """Return a capture of one connection with these requests and responses in turn."""
    packets = []
    seq = ack = 1
    for request_bytes, response_bytes in pairs:
        packets.append(segment(seq=seq, ack=ack, payload=request_bytes))
        seq += len(request_bytes)
        packets.append(segment(to_broker=False, seq=ack, ack=seq, payload=response_bytes))
        ack += len(response_bytes)
    return pcap_file(timed(packets))


def talk(catalog: Catalog, key: int, version: int, values: list[dict[str, Any]]) -> bytes:
    """Return a capture of a Heartbeat and of a request of an API with its response."""
    request_bytes, response_bytes = (
        Writer(catalog.message(key, kind), version).write(one)
        for kind, one in zip(("request", "response"), values, strict=True)
    )
    tags = b"\0" if catalog.request_header_version(key, version) == 2 else b""
    exchange = (
        request(key, version, 8, request_bytes, tags=tags),
        response(8, response_bytes, tags=tags),
    )
    return capture((heartbeat(7), heartbeat_answer(7)), exchange, exchange)


def vendor_talk(catalog: Catalog, version: int) -> bytes:
    parts = [{"errorCode": 0, "note": "fine"}, {"errorCode": 41, "note": "so so"}]
    values = [{"groupId": "billing"}, {"throttleTimeMs": 5, "parts": parts}]
    return talk(catalog, VENDOR, version, values)


def rows_of(data: bytes, catalog: Catalog | None = None) -> list[Row]:
    run = Analysis([io.BytesIO(data)], catalog=catalog)
    return [row for batch in run.row_batches() for row in batch]


@pytest.mark.parametrize("version", [0, 1])
def test_an_api_of_a_vendor_is_decoded(version: int, tmp_path: Path) -> None:
    catalog = Catalog(vendor_folder(tmp_path / "own"))
    data = vendor_talk(catalog, version)
    _, row, again = rows_of(data, catalog)
    assert (row.api_key, row.api_version, row.api_name) == (VENDOR, version, "VendorThing")
    assert (row.status, row.error_code, row.group_id, row.throttle_time_ms) == (
        "error",
        41,
        "billing",
        5,
    )
    assert not row.anomalies
    assert not again.anomalies
    assert "billing" not in [row.group_id for row in rows_of(data)]


def test_a_newer_version_of_a_known_api_is_decoded(tmp_path: Path) -> None:
    catalog = Catalog(next_fetch(tmp_path / "own"))
    values = [
        Generator(catalog.message(FETCH, kind), 19, Random(3)).values()
        for kind in ("request", "response")
    ]
    values[0].update(maxWaitMs=77, minBytes=8)
    values[1].update(errorCode=0, throttleTimeMs=9)
    data = talk(catalog, FETCH, 19, values)
    _, row, _ = rows_of(data, catalog)
    assert (row.api_name, row.api_version) == ("Fetch", 19)
    assert (row.max_wait_ms, row.min_bytes, row.throttle_time_ms) == (77, 8, 9)
    assert "unknown_api_version" not in row.anomalies
    _, guessed, _ = rows_of(data)
    assert "unknown_api_version" in guessed.anomalies


def test_messages_that_are_not_in_the_folder_are_decoded_as_before(tmp_path: Path) -> None:
    catalog = Catalog(next_fetch(vendor_folder(tmp_path / "own")))
    run = Analysis([str(path("basics"))], catalog=catalog)
    found = [row for batch in run.row_batches() for row in batch]
    for ours, before in zip(found, analysis("basics")[0], strict=True):
        assert ours._replace(capture="") == before._replace(capture="")


def test_a_frame_of_a_vendors_api_is_found_after_lost_bytes(tmp_path: Path) -> None:
    catalog = Catalog(vendor_folder(tmp_path / "own"))
    request_bytes = request(VENDOR, 0, 8, struct.pack(">h", 1) + b"g")
    lost = segment(
        seq=1 + 1000, payload=b"\x07" * 30 + request_bytes + request_bytes + heartbeat(9)
    )
    data = pcap_file(timed([segment(seq=1, payload=heartbeat(7)), lost]))
    keys = [row.api_key for row in rows_of(data, catalog)]
    assert keys.count(VENDOR) == 2


@pytest.mark.parametrize("command", ["requests", "report", "decode", "records"])
def test_every_command_that_reads_captures_takes_the_folder(
    command: str, tmp_path: Path, capsysbinary: Any
) -> None:
    own = vendor_folder(tmp_path / "own")
    (tmp_path / "x.pcap").write_bytes(vendor_talk(Catalog(own), 1))
    argv = [command, "--definitions", str(own), "--api", "VendorThing", str(tmp_path / "x.pcap")]
    assert main(argv) == 0
    shown = capsysbinary.readouterr().out
    if command != "records":
        assert b"VendorThing" in shown or b"VENDOR_THING" in shown


def test_the_protocol_command_takes_the_folder(tmp_path: Path, capsys: Any) -> None:
    own = vendor_folder(tmp_path / "own")
    assert main(["protocol", "--definitions", str(own), "VendorThing"]) == 0
    assert "groupId" in capsys.readouterr().out
    assert main(["protocol", "--definitions", str(own), "--json"]) == 0
    assert "VendorThing" in json.dumps(json.loads(capsys.readouterr().out))


def test_a_broken_folder_is_refused_in_one_line_with_status_2(tmp_path: Path, capsys: Any) -> None:
    own = folder(tmp_path / "own", Bad=message("BadRequest", {"name": "F", "type": "int33"}))
    (tmp_path / "x.pcap").write_bytes(capture((heartbeat(7), heartbeat_answer(7))))
    assert main(["requests", "--definitions", str(own), str(tmp_path / "x.pcap")]) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert "Bad.json: BadRequest.F: " in stderr
    with pytest.raises(DefinitionError, match=r"Bad\.json: BadRequest\.F: "):
        kanalyze.requests(str(tmp_path / "x.pcap"), definitions=own)


def test_the_library_takes_the_folder(tmp_path: Path) -> None:
    own = vendor_folder(tmp_path / "own")
    (tmp_path / "x.pcap").write_bytes(vendor_talk(Catalog(own), 0))
    found = kanalyze.requests(str(tmp_path / "x.pcap"), definitions=own, api="VendorThing")
    assert [row.api_key for row in found] == [VENDOR, VENDOR]
