from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.api.tables import fill
from kanalyze.capture.file_metadata import CaptureInterface, FileMetadata
from kanalyze.common.saved import make
from kanalyze.kafka.session.events import UnknownTotal
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.queries.database import Database
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.anomalies import QUALITY, QualityFact
from kanalyze.tables.quality import MAX_TEXTS, AnomalyTotal, CaptureQuality, quality_facts
from tests.support.captures import path
from tests.support.quality import capture_quality

TOTALS = st.builds(AnomalyTotal, st.integers(1, 9), st.integers(0, 9))
QUALITIES = st.builds(
    capture_quality,
    captures=st.lists(st.sampled_from("abc"), unique=True),
    packets=st.integers(0, 99),
    first_time_ns=st.none() | st.integers(0, 99),
    last_time_ns=st.none() | st.integers(0, 99),
    dropped_packets=st.none() | st.integers(0, 99),
    kafka_bytes=st.integers(0, 99),
    decoded_bytes=st.integers(0, 99),
    anomalies=st.dictionaries(st.sampled_from(AnomalyKind), TOTALS, max_size=3),
)


@given(QUALITIES)
def test_quality_is_the_same_after_json(quality):
    quality.unknown_ports["9092"] = make(UnknownTotal, (1, 2, 3))
    quality.kafka_ports["9092"] = 4
    quality.interfaces["eth0 \ud800"] = 5
    values = json.loads(json.dumps(quality.to_values()))
    found = CaptureQuality.from_values(values)
    assert found.to_values() == quality.to_values()
    assert found.to_dict() == quality.to_dict()


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        {"packets": -1},
        {"packets": None},
        {"packets": "1"},
        {"packets": True},
        {"packets": 2**63},
        {"captures": "a"},
        {"captures": [1]},
        {"first_time_ns": 1.5},
        {"first_time_ns": 2**64},
        {"anomalies": {"no such kind": [1, 1]}},
        {"anomalies": {"lost_bytes": [1]}},
        {"anomalies": {"lost_bytes": 1}},
        {"kafka_ports": {"x": 1}},
        {"kafka_ports": {"9092": "1"}},
        {"unknown_ports": {"9092": [1, 2]}},
        {"unknown_ports": {"-1": [1, 2, 3]}},
        {"interfaces": {"a": -1}},
        {"interfaces": [1]},
    ],
)
def test_values_that_are_not_a_saved_quality_are_refused(values):
    with pytest.raises((KeyError, TypeError, ValueError)):
        CaptureQuality.from_values(values)


def merged(*parts: CaptureQuality) -> CaptureQuality:
    total = CaptureQuality()
    for part in parts:
        total.merge(part)
    return total


@given(QUALITIES, QUALITIES, QUALITIES)
def test_merging_is_associative(one, two, three):
    assert merged(merged(one, two), three).to_dict() == merged(one, merged(two, three)).to_dict()


@given(QUALITIES)
def test_merging_an_empty_quality_changes_nothing(quality):
    assert merged(quality).to_dict() == quality.to_dict()
    assert merged(CaptureQuality(), quality, CaptureQuality()).to_dict() == quality.to_dict()


def test_every_counter_is_summed():
    one = CaptureQuality()
    names = [name for name, value in vars(one).items() if value == 0]
    assert len(names) > 15
    for number, name in enumerate(names):
        setattr(one, name, number + 1)
    twice = merged(one, one)
    assert [getattr(twice, name) for name in names] == [2 * (n + 1) for n in range(len(names))]


def test_the_time_of_a_whole_spans_both_parts():
    whole = merged(
        capture_quality(first_time_ns=50, last_time_ns=60),
        CaptureQuality(),
        capture_quality(first_time_ns=10, last_time_ns=55),
    )
    assert (whole.first_time_ns, whole.last_time_ns, whole.duration_ns) == (10, 60, 50)
    assert CaptureQuality().duration_ns is None
    assert merged(CaptureQuality(["a"]), CaptureQuality(["b", "a"])).captures == ["a", "b"]


def test_dropped_packets_are_unknown_only_if_no_input_reports_them():
    assert merged(CaptureQuality(), CaptureQuality()).dropped_packets is None
    assert merged(CaptureQuality(), capture_quality(dropped_packets=0)).dropped_packets == 0
    known = capture_quality(dropped_packets=3)
    assert merged(known, known).dropped_packets == 6


def test_anomalies_are_counted_by_kind():
    quality = CaptureQuality()
    quality.count_anomaly(AnomalyKind.LOST_BYTES, 100)
    quality.count_anomaly(AnomalyKind.LOST_BYTES, 20, count=2)
    assert quality.anomalies.keys() == {AnomalyKind.LOST_BYTES}
    total = quality.anomalies[AnomalyKind.LOST_BYTES]
    assert (total.count, total.bytes) == (3, 120)


def test_a_share_of_one_means_that_nothing_is_missing():
    almost = capture_quality(kafka_bytes=10**9, decoded_bytes=10**9 - 1)
    assert almost.to_dict()["decoded_share"] == 0.999999
    assert capture_quality(kafka_bytes=7, decoded_bytes=7).to_dict()["decoded_share"] == 1
    assert CaptureQuality().decoded_share is None
    assert capture_quality(kafka_bytes=4, decoded_bytes=1).decoded_share == pytest.approx(0.25)


def test_the_plain_form_can_be_written_as_json():
    quality = capture_quality(["x"], packets=3)
    quality.count_anomaly(AnomalyKind.TRAILING_BYTES, 4)
    quality.count_anomaly(AnomalyKind.LOST_BYTES, 9)
    plain = quality.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert list(plain["anomalies"]) == ["lost_bytes", "trailing_bytes"]
    assert plain["anomalies"]["lost_bytes"] == {"count": 1, "bytes": 9}


def description(*names: str | None, comments: tuple[tuple[str, str], ...] = ()) -> FileMetadata:
    made = FileMetadata()
    for name in names:
        made.add_interface(CaptureInterface("x.pcapng", 1, 0, name, filter="tcp port 9092"))
    for about, text in comments:
        made.add_comment("x.pcapng", about, None, text)
    return made


def test_descriptions_in_captures_are_counted_by_text():
    quality = CaptureQuality()
    comments = ("section", "rack 2"), ("packet", "here"), ("statistics", "dumpcap"), ("packet", "a")
    for _ in range(2):
        quality.count_description(description("eth0", None, comments=comments))
    assert quality.interfaces == {
        "eth0, filter: tcp port 9092": 2,
        "an interface without a name, filter: tcp port 9092": 2,
    }
    assert (quality.comments, quality.packet_comments) == ({"rack 2": 2}, 4)


def test_an_interface_without_name_and_filter_is_not_counted():
    plain = FileMetadata()
    plain.add_interface(CaptureInterface("x.pcap", 1, 65535))
    quality = CaptureQuality()
    quality.count_description(plain)
    assert quality.interfaces == {}


def test_texts_of_captures_are_bounded_when_parts_are_added_too():
    parts = []
    for part in range(3):
        quality = CaptureQuality()
        quality.count_description(description(*(f"eth{part}.{n}" for n in range(MAX_TEXTS))))
        parts.append(quality)
    total = merged(*parts)
    assert len(total.interfaces) == MAX_TEXTS + 1
    assert total.interfaces["other"] == 2 * MAX_TEXTS


def test_each_known_count_is_a_line_and_unknown_counts_are_omitted() -> None:
    quality = CaptureQuality()
    quality.packets = 5
    quality.refused_by = {"10.0.0.2:9092": 2}
    quality.count_anomaly(AnomalyKind.CAPTURE_UNREADABLE, 100, 3)
    facts = list(quality_facts(quality))
    assert QualityFact("packets", None, 5) in facts
    assert QualityFact("refused_by", "10.0.0.2:9092", 2) in facts
    assert QualityFact("anomalies", "capture_unreadable", 3) in facts
    assert "dropped_packets" not in {fact.fact for fact in facts}
    quality.dropped_packets = 0
    assert QualityFact("dropped_packets", None, 0) in quality_facts(quality)


@pytest.mark.parametrize("name", ["snaplen", "errors"])
def test_the_table_matches_the_quality_of_the_run(name: str) -> None:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        run = Analysis([str(path(name))])
        fill(database, run, [QUALITY])
        lines = database.ask(f"SELECT fact, value FROM {QUALITY} WHERE about IS NULL").to_pylist()
        plain = {line["fact"]: line["value"] for line in lines}
        expected = run.quality.to_dict()
        assert plain == {key: expected[key] for key in plain}
        assert plain["packets"] > 0
        assert plain["snapped_bytes"] == expected["snapped_bytes"]
