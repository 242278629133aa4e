"""Records in captures, compared with the counts of broker and clients, and with each other."""

from __future__ import annotations

import base64
import functools
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.records.rows import RecordReader, has_records
from tests.support.captures import CHOSEN, WHOLE, analysis, often, path, truth
from tests.support.cases import for_each
from tests.support.exchange_batches import exchange_batches
from tests.support.record_rows import record_batches

if TYPE_CHECKING:
    from kanalyze.spec.rows.records import RecordRow

CUT = {"snaplen"}
ENCRYPTED = {"tls"}
READABLE = [name for name in WHOLE if name not in CUT | ENCRYPTED]
COUNTED = [name for name in READABLE if "sent_records" in truth(name)]


@functools.cache
def records(name: str) -> tuple[RecordRow, ...]:
    catalog = Catalog()
    reader = RecordReader(catalog, Decoders(catalog), values_as="base64")
    run = Analysis([str(path(name))], keep=has_records)
    batches = (record_batches(reader, exchanges) for exchanges in exchange_batches(run))
    return tuple(row for batch in batches for rows in batch for row in rows)


def by_topic(name: str, api_name: str) -> Counter[str | None]:
    return Counter(
        row.topic
        for row in records(name)
        if row.api_name == api_name and not row.is_control and row.problem is None
    )


@for_each("name", COUNTED)
def test_records_are_as_many_as_were_sent_and_fetched(name: str) -> None:
    assert by_topic(name, "Produce") == truth(name)["sent_records"]
    # Old brokers cannot be asked for counts of fetched records; their clients have counted them.
    got = truth(name).get("fetched_records")
    assert by_topic(name, "Fetch") == (truth(name)["client_consumed"] if got is None else got)


@for_each("name", READABLE)
def test_every_checksum_is_right_and_no_record_has_a_problem(name: str) -> None:
    # A client that leaves while a fetch waits resets the connection amid the response.
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


def written_fields(row: RecordRow) -> tuple[object, ...]:
    return (
        *(row.key, row.key_encoding, row.key_bytes),
        *(row.value, row.value_encoding, row.value_bytes),
        *(row.headers, row.timestamp_ms, row.timestamp_type),
        *(row.codec, row.producer_id, row.producer_epoch, row.sequence, row.is_transactional),
    )


@pytest.mark.parametrize("name", ["basics", "codecs", "large", "any", "ipv6", "waits"])
def test_produced_records_are_fetched_byte_for_byte(name: str) -> None:
    sent = {
        (row.topic, row.partition, row.offset): written_fields(row)
        for row in records(name)
        if row.api_name == "Produce" and row.offset is not None
    }
    got = [row for row in records(name) if row.api_name == "Fetch" and not row.is_control]
    compared = [row for row in got if (row.topic, row.partition, row.offset) in sent]
    for row in compared:
        assert written_fields(row) == sent[row.topic, row.partition, row.offset]
    assert len(compared) > 0.5 * len(got)  # with acks=0 a producer gets no offset


def in_bytes(text: str | None, encoding: str | None) -> bytes | None:
    if text is None:
        return None
    return text.encode() if encoding == "text" else base64.b64decode(text)


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


WRITTEN_DOWN = [name for name in READABLE if "records" in truth(name)]
assert "codecs" in WRITTEN_DOWN


@pytest.mark.parametrize("name", WRITTEN_DOWN)
@pytest.mark.parametrize("api_name", ["Produce", "Fetch"])
def test_records_are_byte_for_byte_those_that_clients_received(name: str, api_name: str) -> None:
    ours = {
        (row.topic, row.partition, row.offset): (
            row.timestamp_ms or 0,  # clients write null or 0 where there is none
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
    # Records produced with acks=0 have no offset to be found by.
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


def by_reader(name: str) -> dict[str | None, dict[bool | None, int]]:
    """How many fetched records of each client are of aborted transactions."""
    found: dict[str | None, Counter[bool | None]] = {}
    for row in records(name):
        if row.api_name == "Fetch" and not row.is_control:
            found.setdefault(row.client_id, Counter())[row.is_aborted] += 1
    return {reader: dict(counts) for reader, counts in found.items()}


def test_aborted_records_are_those_that_clients_aborted() -> None:
    counted = truth("transactions")
    found = by_reader("transactions")
    for reader, topic in (("java", "tx-confluent"), ("confluent", "tx-java")):
        expected = {
            True: counted["client_aborted"][topic],
            False: counted["client_committed"][topic],
        }
        assert found[f"{reader}-read_committed"] == expected
        # Here the control records decide.
        assert found[f"{reader}-read_uncommitted"] == expected
    assert found["idempotent-reader"] == {False: counted["client_consumed"]["tx-idempotent"]}


def test_the_outcome_of_the_transaction_of_a_produced_record_is_not_known() -> None:
    sent = [row for row in records("transactions") if row.api_name == "Produce"]
    assert {(row.is_transactional, row.is_aborted) for row in sent} == {
        (True, None),
        (False, False),
    }


def test_records_of_a_share_group_are_as_many_as_its_members_got() -> None:
    shared = [row for row in records("next-groups") if row.api_name == "ShareFetch"]
    for client in truth("next-groups")["clients"]:
        if client["op"] == "share":
            got = [row for row in shared if row.client_id == client["client_id"]]
            acquired = sum(row.is_acquired or False for row in got)
            assert {"next-shared": {"*": acquired}} == client["shared"]
    assert {(row.topic, row.problem) for row in shared} == {("next-shared", None)}
    assert {row.delivery_count for row in shared if row.is_acquired} == {1}
    assert {row.delivery_count for row in shared if not row.is_acquired} <= {None}
    others = {row.is_acquired for row in records("next-groups") if row.api_name != "ShareFetch"}
    assert others == {None}


@pytest.mark.parametrize("name", often(WRITTEN_DOWN, CHOSEN))
def test_names_of_headers_are_those_that_clients_received(name: str) -> None:
    theirs = {
        (item["topic"], item["partition"], item["offset"]): [key for key, _ in item["headers"]]
        for item in truth(name)["records"]
    }
    without_values = list(kanalyze.records(path(name), api="Fetch"))
    ours = {(row.topic, row.partition, row.offset): row.header_names for row in without_values}
    assert {place: ours[place] for place in theirs} == theirs
    shown = [[item.key for item in row.headers] for row in records(name)]
    assert [row.header_names for row in records(name)] == shown


@pytest.mark.parametrize("name", ["basics", "codecs", "transactions", "waits", "old-1-1-1"])
def test_fetched_records_have_the_time_when_they_were_produced(name: str) -> None:
    sent = {
        (row.topic, row.partition, row.offset): row.time_ns
        for row in records(name)
        if row.api_name == "Produce" and row.offset is not None and row.error_code == 0
    }
    found = 0
    # The requests that appended the records do not match the filter.
    for row in kanalyze.records(path(name), api="Fetch"):
        expected = sent.get((row.topic, row.partition, row.offset))
        assert row.produced_time_ns == expected
        assert row.delay_ns == (None if expected is None else row.time_ns - expected)
        found += expected is not None
    assert found > 10
    of_produce = {row.delay_ns for row in kanalyze.records(path(name), api="Produce")}
    assert of_produce == {None}


def test_a_search_finds_the_records_that_have_the_bytes() -> None:
    searched = b"te"
    every = [row for row in records("codecs") if row.problem is None]
    expected = {
        (row.packet, row.connection, row.partition, row.record_index): ", ".join(
            f"{part}@{data.find(searched)}"
            for part, data in (
                ("key", in_bytes(row.key, row.key_encoding)),
                ("value", in_bytes(row.value, row.value_encoding)),
                *(
                    (f"header {item.key}", in_bytes(item.value, item.encoding))
                    for item in row.headers
                ),
            )
            if data is not None and searched in data
        )
        for row in every
    }
    found = {
        (row.packet, row.connection, row.partition, row.record_index): row.found_in
        for row in kanalyze.records(path("codecs"), search=searched)
    }
    assert found == {place: where for place, where in expected.items() if where}
    assert 0 < len(found) < len(every)


@for_each("name", sorted(CUT))
def test_records_cut_by_a_snap_length_are_marked(name: str) -> None:
    assert {row.problem for row in records(name)} == {"missing_bytes"}


@for_each("name", sorted(ENCRYPTED))
def test_an_encrypted_capture_gives_no_records(name: str) -> None:
    assert records(name) == ()
