"""The records in the captures against what broker and clients counted, and against each other."""

from __future__ import annotations

import base64
import functools
from collections import Counter

import pytest

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.records.rows import RecordReader, RecordRow, has_records
from tests.support.captures import WHOLE, analysis, path, truth

CUT = {"snaplen"}
ENCRYPTED = {"tls"}
READABLE = [name for name in WHOLE if name not in CUT | ENCRYPTED]
COUNTED = [name for name in READABLE if "sent_records" in truth(name)]


@functools.cache
def records(name: str) -> tuple[RecordRow, ...]:
    catalog = Catalog()
    reader = RecordReader(catalog, Decoders(catalog), values_as="base64")
    run = Analysis([str(path(name))], keep=has_records)
    batches = (reader.row_batches(exchanges) for exchanges in run.exchange_batches())
    return tuple(row for batch in batches for rows in batch for row in rows)


def by_topic(name: str, api_name: str) -> Counter[str | None]:
    return Counter(
        row.topic
        for row in records(name)
        if row.api_name == api_name and not row.is_control and row.problem is None
    )


@pytest.mark.parametrize("name", COUNTED)
def test_records_are_as_many_as_were_sent_and_fetched(name: str) -> None:
    assert by_topic(name, "Produce") == truth(name)["sent_records"]
    # What brokers of old counted of fetches can't be asked for; what their clients got can.
    got = truth(name).get("fetched_records")
    assert by_topic(name, "Fetch") == (truth(name)["client_consumed"] if got is None else got)


@pytest.mark.parametrize("name", READABLE)
def test_every_checksum_is_right_and_nothing_is_wrong(name: str) -> None:
    # A client that leaves while a fetch waits resets the connection amid the answer.
    cut = {row.response_packet for row in analysis(name)[0] if "incomplete_frame" in row.anomalies}
    for row in records(name):
        if row.packet in cut:
            assert row.problem == "missing_bytes"
        else:
            assert row.crc_ok
            assert row.problem is None


@pytest.mark.parametrize("name", [*READABLE])
def test_the_base_offset_of_a_fetch_is_that_of_the_first_record(name: str) -> None:
    fetched = [row for row in records(name) if row.api_name == "Fetch" and row.problem is None]
    first: dict[object, int] = {}
    hidden = set()
    for record in fetched:
        place = (record.connection, record.packet, record.topic, record.partition)
        if place not in first and record.magic != 2 and record.codec != "none":
            hidden.add(place)
        first.setdefault(place, record.offset or 0)
    ours = {
        (row.connection, row.response_packet, part.topic, part.partition): part.base_offset
        for row in analysis(name)[0]
        if row.api_name == "Fetch"
        for part in row.partitions
        if part.record_bytes
    }
    # Compacted batches begin with an offset whose record may be gone; there are none of them here.
    assert {place: None if place in hidden else at for place, at in first.items()} == {
        place: ours[place] for place in first
    }


def what_was_written(row: RecordRow) -> tuple[object, ...]:
    return (
        *(row.key, row.key_encoding, row.key_bytes),
        *(row.value, row.value_encoding, row.value_bytes),
        *(row.headers, row.timestamp_ms, row.timestamp_type),
        *(row.codec, row.producer_id, row.producer_epoch, row.sequence, row.is_transactional),
    )


@pytest.mark.parametrize("name", ["basics", "codecs", "large", "any", "ipv6", "waits"])
def test_what_was_produced_is_fetched_byte_for_byte(name: str) -> None:
    sent = {
        (row.topic, row.partition, row.offset): what_was_written(row)
        for row in records(name)
        if row.api_name == "Produce" and row.offset is not None
    }
    got = [row for row in records(name) if row.api_name == "Fetch" and not row.is_control]
    compared = [row for row in got if (row.topic, row.partition, row.offset) in sent]
    for row in compared:
        assert what_was_written(row) == sent[row.topic, row.partition, row.offset]
    assert len(compared) > 0.5 * len(got)  # what was sent with acks=0 was told no offset


def in_bytes(text: str | None, encoding: str | None) -> bytes | None:
    if text is None:
        return None
    return text.encode() if encoding == "text" else base64.b64decode(text)


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


WRITTEN_DOWN = [name for name in READABLE if "records" in truth(name)]


def test_of_some_records_the_clients_wrote_down_every_byte() -> None:
    assert "codecs" in WRITTEN_DOWN


@pytest.mark.parametrize("name", WRITTEN_DOWN)
@pytest.mark.parametrize("api_name", ["Produce", "Fetch"])
def test_records_are_byte_for_byte_those_that_clients_received(name: str, api_name: str) -> None:
    ours = {
        (row.topic, row.partition, row.offset): (
            row.timestamp_ms or 0,  # clients tell null or 0 where there is none
            in_bytes(row.key, row.key_encoding),
            in_bytes(row.value, row.value_encoding),
            [(item.key, in_bytes(item.value, item.encoding)) for item in row.headers],
        )
        for row in records(name)
        if row.api_name == api_name and not row.is_control and row.offset is not None
    }
    theirs = {
        (item["topic"], item["partition"], item["offset"]): (
            item["timestamp"] or 0,
            decoded(item["key"]),
            decoded(item["value"]),
            [(key, decoded(value)) for key, value in item["headers"]],
        )
        for item in truth(name)["records"]
    }
    # What was sent with acks=0 was told no offset: it cannot be found by it.
    found = theirs if api_name == "Fetch" else theirs.keys() & ours.keys()
    assert len(found) > 0.5 * len(theirs)
    assert {key: ours.get(key) for key in found} == {key: theirs[key] for key in found}


def test_transactions_end_with_markers_that_no_client_wrote() -> None:
    markers = [row for row in records("transactions") if row.is_control]
    assert {row.control_type for row in markers} == {"commit", "abort"}
    assert {row.api_name for row in markers} == {"Fetch"}
    assert all(row.is_transactional and row.sequence is None for row in markers)
    writers = {row.producer_id for row in records("transactions") if row.api_name == "Produce"}
    assert {row.producer_id for row in markers} <= writers


def test_produced_values_are_those_the_client_made() -> None:
    # The recording clients fill a value of 200 bytes with "TOPIC/PARTITION/NUMBER ".
    sent = [row for row in records("waits") if row.api_name == "Produce"]
    assert [row.key for row in sent] == [f"key-{number}" for number in range(len(sent))]
    for number, row in enumerate(sent):
        assert row.value == (f"waits-trickle/0/{number} " * 20)[:200]


@pytest.mark.parametrize("name", sorted(CUT))
def test_what_the_capture_lacks_is_said(name: str) -> None:
    assert {row.problem for row in records(name)} == {"missing_bytes"}


@pytest.mark.parametrize("name", sorted(ENCRYPTED))
def test_what_is_encrypted_gives_no_records(name: str) -> None:
    assert records(name) == ()
