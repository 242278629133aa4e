"""Tasks decrypt the same as one process, however files are cut; no secret is sent to them."""

from __future__ import annotations

import pickle
import struct
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.api.inputs import read_key_logs
from kanalyze.batch.archive.blocks import _HEADER, unpack_state
from kanalyze.batch.archive.packed_segments import unpack
from kanalyze.batch.archive.planning import ReadSummary
from kanalyze.batch.archive.tasks import with_keys
from kanalyze.export.arrow import BatchMaker
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.state import _opened, split
from kanalyze.spec.rows.tables import TABLES
from tests.support import tls_captures
from tests.support.archives import WAYS, a_job, read_all, rebuilt
from tests.support.captures import in_turn
from tests.support.cut_captures import cut, packets_of, write_pcap
from tests.support.disorder import altered
from tests.support.disorder.compare import write
from tests.support.quality import UNCHECKED_BATCHES
from tests.tls.test_saved_state import secrets_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.support.archives import Rebuilt, Sent

FEW = ("tls12-aes256cbc-sha1", "tls13-key-update", "tls13-late", "tls13-sasl")
WHOLE = [*tls_captures.RECORDED, *tls_captures.LATE, *tls_captures.LOST]
NAMES = [name for name in WHOLE if name not in tls_captures.WITH_SECRETS]
COUNTS = (2, 7, 1, 30)
READ_BY_TSHARK = [name for name in tls_captures.RECORDED if name != "tls-other-port"]
"""It cannot follow a connection that begins before the capture or lost packets, nor TLS on a port
that it does not know."""
DISORDER = (
    *("blocks shuffled, clock rising", "every packet twice", "sent again"),
    *("a direction shuffled, each with its time", "two capture points"),
)


def counted(rows: Iterable[object]) -> Counter[str]:
    return Counter(map(repr, rows))


def of_one_process(files: list[str], *keys: str) -> tuple[dict[str, Counter[str]], Any]:
    """The rows of all tables, and the quality, of one process."""
    run = Analysis(files, keylog=read_key_logs(keys))
    tables: dict[str, Counter[str]] = {"requests": Counter()}
    for rows in run.table_rows():
        for table, block in rows.blocks():
            if table == "requests":
                tables[table] += counted(block.rows())
                continue
            columns = TABLES[table].columns
            lines = BatchMaker(columns).of_block(block).to_pylist()
            tables[table] = tables.get(table, Counter()) + counted(lines)
    return tables, run.quality


def of_tasks(found: Rebuilt) -> dict[str, Counter[str]]:
    return {
        "requests": counted(found.rows),
        "connections": counted(found.tables.get("connections", ())),
        "anomalies": counted(row._asdict() for row in found.anomalies),
    }


def assert_same_as_one_process(found: Rebuilt, files: list[str], keys: str) -> None:
    expected, quality = of_one_process(files, keys)
    actual = of_tasks(found)
    for table in actual:
        assert actual[table] == expected.get(table, Counter())
    assert sorted(found.quality.captures) == sorted(quality.captures)
    found.quality.captures = quality.captures
    assert found.quality.to_dict() == {**quality.to_dict(), **UNCHECKED_BATCHES}


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "count"), in_turn(NAMES, COUNTS, FEW))
def test_rows_match_one_process(name: str, count: int, tmp_path: Path) -> None:
    files = [str(file) for file in cut(tls_captures.path(name), tmp_path, count)]
    keys = str(tls_captures.keylog(name))
    found = rebuilt(a_job(3, keylog=keys, sent=WAYS[count % len(WAYS)]), files)
    assert_same_as_one_process(found, files, keys)
    if count == 1 and name in READ_BY_TSHARK:
        assert len(found.rows) == len(tls_captures.read_by_tshark(name))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("label", "name"), in_turn(DISORDER, ["tls13-sasl", "tls12-aes256cbc-sha1"])
)
def test_rows_of_captures_in_disorder_match_one_process(
    label: str, name: str, tmp_path: Path
) -> None:
    assert_same_in_disorder(label, name, 0, tmp_path)


# If a hello follows a record, what is known of the session at the record depends on the batch.
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("label", "name", "round_number"),
    [
        ("blocks shuffled, clock rising", "tls13-sasl", 3),
        ("blocks shuffled, clock rising", "tls13-sasl", 4),
        ("blocks shuffled, clock rising", "tls13-key-update", 6),
        ("a direction shuffled, each with its time", "tls12-aes256cbc-sha1", 2),
    ],
)
def test_rows_match_one_process_with_hellos_after_other_records(
    label: str, name: str, round_number: int, tmp_path: Path
) -> None:
    assert_same_in_disorder(label, name, round_number, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("round_number", range(1, 13))
@pytest.mark.parametrize("label", DISORDER)
@pytest.mark.parametrize("name", FEW)
def test_rows_match_one_process_in_every_disorder(
    label: str, name: str, round_number: int, tmp_path: Path
) -> None:
    assert_same_in_disorder(label, name, round_number, tmp_path)


def assert_same_in_disorder(label: str, name: str, round_number: int, folder: Path) -> None:
    change = altered(str(tls_captures.path(name)), label, "seven files", round_number=round_number)
    write(change, folder, name)
    files = sorted(map(str, folder.iterdir()))
    keys = str(tls_captures.keylog(name))
    found = rebuilt(a_job(3, keylog=keys, sent=WAYS[round_number % len(WAYS)]), files)
    assert found.rows
    assert_same_as_one_process(found, files, keys)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "sent"),
    in_turn(
        ["tls12-aes128gcm", "tls13-key-update", "tls13-sasl"],
        WAYS,
        ["tls12-aes128gcm", "tls13-key-update"],
    ),
)
def test_three_jobs_in_a_row_give_the_rows_of_one(name: str, sent: Sent, tmp_path: Path) -> None:
    files = [str(file) for file in cut(tls_captures.path(name), tmp_path, 7)]
    keys = str(tls_captures.keylog(name))
    whole = rebuilt(a_job(keylog=keys), files)

    job = a_job(keeps_open=True, keylog=keys, sent=sent)
    first = rebuilt(job, files[:2])
    second = rebuilt(job._replace(run=1), files[2:5], states=first.states, names=first.names)
    last = job._replace(run=2, keeps_open=False)
    third = rebuilt(last, files[5:], states=second.states, names=second.names)

    jobs = (first, second, third)
    assert counted(row for job in jobs for row in job.rows) == counted(whole.rows)
    ended = [line for job in jobs for line in job.tables.get("connections", ())]
    assert counted(ended) == counted(whole.tables["connections"])
    states = [state for job in jobs for state in job.states.values()]
    assert states
    for secret in secrets_of(name):
        for state in states:
            saved = unpack_state(state)[1]
            assert secret not in _opened(saved)
            rows, _ = split(saved)
            assert rows is not None
            assert secret not in zlib.decompress(rows)


def test_a_later_job_without_the_keys_reports_missing_keys(tmp_path: Path) -> None:
    name = "tls13-sasl"
    files = [str(file) for file in cut(tls_captures.path(name), tmp_path, 2)]
    keys = str(tls_captures.keylog(name))
    whole = rebuilt(a_job(keylog=keys), files)
    first = rebuilt(a_job(keeps_open=True, keylog=keys), files[:1])
    second = rebuilt(a_job(run=1), files[1:], states=first.states, names=first.names)
    missing = [row.connection for row in second.anomalies if row.kind == "keys_missing"]
    assert missing
    assert len(set(missing)) == len(missing)
    assert len(first.rows) + len(second.rows) < len(whole.rows)


# -- secrets inside captures ----------------------------------------------------------------------


def blocks_of(pcapng: bytes) -> list[tuple[int, bytes]]:
    """The blocks of a little-endian pcapng file, with their types."""
    blocks, at = [], 0
    while at < len(pcapng):
        kind, size = struct.unpack_from("<II", pcapng, at)
        blocks.append((kind, pcapng[at : at + size]))
        at += size
    return blocks


def with_secrets_in_the_first(name: str, folder: Path) -> list[str]:
    """Cut a capture into two files: secrets are in the first, most packets in the second."""
    packet_block = 6
    blocks = blocks_of(tls_captures.path(name).read_bytes())
    count = sum(kind == packet_block for kind, _ in blocks) // 3
    left = count
    first = folder / "first.pcapng"
    with first.open("wb") as file:
        for kind, block in blocks:
            left -= kind == packet_block
            if kind != packet_block or left >= 0:
                file.write(block)
    second = folder / "second.pcap"
    write_pcap(second, packets_of(tls_captures.path(name))[count:])
    return [str(first), str(second)]


@pytest.mark.few(2)
@pytest.mark.parametrize("sent", WAYS)
@pytest.mark.parametrize("name", tls_captures.WITH_SECRETS)
def test_secrets_inside_a_capture_decrypt_packets_of_other_captures(
    name: str, sent: Sent, tmp_path: Path
) -> None:
    files = with_secrets_in_the_first(name, tmp_path)
    job = a_job(3, sent=sent, folder=tmp_path / "blocks")
    told, reports = read_all(job, files)
    assert [report.keyed.blocks for report in reports if report.keyed is not None] == [1]
    keyed = with_keys(job, ReadSummary(reports, job.buckets).keyed)
    found = rebuilt(keyed, files)
    assert counted(found.rows) == of_one_process(files)[0]["requests"]
    assert len(found.rows) == len(tls_captures.read_by_tshark(name))
    # The place of the secrets is sent to tasks, not the secrets.
    secrets = secrets_of(name)
    assert secrets
    everything = [pickle.dumps((keyed, reports, told)), *sent_bytes(tmp_path / "blocks")]
    assert len(everything) > 1 or sent == "read again"
    for secret in secrets:
        assert not any(secret in data or secret.hex().encode() in data for data in everything)


def sent_bytes(folder: Path) -> list[bytes]:
    """The blocks that tasks wrote; their payload is compressed."""
    found = []
    for file in folder.glob("*.blocks"):
        data, at = file.read_bytes(), 0
        while at < len(data):
            *_, length = _HEADER.unpack_from(data, at)
            at += _HEADER.size + length
            found.append(bytes(unpack(data[at - length : at]).segments.buffer))
    return found


def test_data_sent_to_tasks_contains_no_secret(tmp_path: Path) -> None:
    name = "tls13-sasl"
    files = [str(file) for file in cut(tls_captures.path(name), tmp_path, 2)]
    folder = tmp_path / "blocks"
    job = a_job(sent="written", folder=folder, keylog=str(tls_captures.keylog(name)))
    assert rebuilt(job, files).rows
    plain = pickle.dumps(job) + repr(job).encode() + b"".join(sent_bytes(folder))
    for secret in secrets_of(name):
        assert secret not in plain
        assert secret.hex() not in plain.decode("latin-1").lower()
