"""A topic's name holds for the whole capture, wherever it is learned; users may give names."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.errors import UsageError
from kanalyze.render.missing import unnamed_topics_text
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.requests.topic_names import topic_id_text
from tests.support import topic_ids as t
from tests.support.packets import pcap_file, timed
from tests.support.traffic import Line

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.spec.rows.requests import Row

OTHER_ID = bytes(15) + b"\7"


def talk(*turns: bytes, port: int) -> list[bytes]:
    """A connection seen from the middle: requests and answers in turn."""
    packets: list[bytes] = []
    line = Line(packets, port)
    for index, data in enumerate(turns):
        line.says(index % 2, data)
    return packets


BEFORE = talk(
    *(t.produce(1), t.produce_answer(1), t.produce(2, OTHER_ID), t.produce_answer(2, OTHER_ID)),
    port=50001,
)
NAMING = talk(t.metadata(1), t.metadata_answer(1, "orders"), port=50002)
CAPTURE = pcap_file(timed(BEFORE + NAMING))


@pytest.fixture
def capture(tmp_path: Path) -> str:
    path = tmp_path / "middle.pcap"
    path.write_bytes(CAPTURE)
    return str(path)


def topics_of(rows: list[Row]) -> list[str | None]:
    """Topics of the partitions of Produce requests."""
    return [part.topic for row in rows if row.api_name == "Produce" for part in row.partitions]


def test_a_name_learned_later_holds_for_earlier_rows(capture: str) -> None:
    rows = list(kanalyze.requests(capture))
    assert [row.api_name for row in rows] == ["Produce", "Produce", "Metadata"]
    assert topics_of(rows) == ["orders", None]
    assert [part.topic_id for row in rows[:2] for part in row.partitions] == [
        topic_id_text(t.TOPIC_ID),
        topic_id_text(OTHER_ID),
    ]


def test_a_name_learned_in_a_later_file_holds_too(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap_file(timed(BEFORE)))
    later = timed(BEFORE + NAMING)[len(BEFORE) :]
    (tmp_path / "b.pcap").write_bytes(pcap_file(later))
    assert topics_of(list(kanalyze.requests(str(tmp_path)))) == ["orders", None]


def test_rows_can_be_filtered_by_a_name_learned_later(capture: str) -> None:
    rows = list(kanalyze.requests(capture, topic="ord*"))
    assert [row.api_name for row in rows] == ["Produce", "Metadata"]


def test_a_file_that_can_be_read_only_once_has_names_from_where_they_are_learned() -> None:
    again = talk(t.produce(3), t.produce_answer(3), port=50003)
    data = pcap_file(timed(BEFORE + NAMING + again))
    run = Analysis([io.BytesIO(data)])
    rows = [row for batch in run.row_batches() for row in batch]
    assert topics_of(rows) == [None, None, "orders"]


def test_the_search_for_names_counts_nothing_twice(capture: str) -> None:
    run = Analysis([capture])
    rows = [row for batch in run.row_batches() for row in batch]
    assert run.quality.packets == len(BEFORE) + len(NAMING)
    assert run.quality.kafka_connections == 2
    assert [row.request_packet for row in rows] == [1, 3, 5]


def test_the_user_may_name_topics_that_the_capture_does_not(capture: str, tmp_path: Path) -> None:
    named = tmp_path / "ids.json"
    named.write_text(json.dumps({topic_id_text(OTHER_ID): "clicks"}))
    assert topics_of(list(kanalyze.requests(capture, topic_ids=named))) == ["orders", "clicks"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"what is this", "line 1 of the topic ids"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_bad_file_of_ids_is_refused_with_its_name(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "ids.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=reason) as caught:
        kanalyze.requests("x.pcap", topic_ids=path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "words", [["requests", "-o", "{out}"], ["requests"], ["report"], ["records", "-o", "{out}"]]
)
def test_topics_without_a_name_are_said_in_one_line_with_what_to_do(
    words: list[str], capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.format(out=tmp_path / "rows.csv") for word in words]
    command, *options = words
    assert main([command, capture, *options]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kanalyze: 1 topic known only by id: --topic-ids FILE")
    assert "kafka-topics.sh --describe" in line
    named = tmp_path / "ids.txt"
    named.write_text(f"{topic_id_text(OTHER_ID)} clicks\n", encoding="utf-8")
    assert main([command, capture, *options, "--topic-ids", str(named)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["requests", "report", "decode"])
def test_only_topics_of_what_is_shown_are_said(
    command: str, capture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are in requests that a filter leaves out."""
    for filters, is_said in ((["--topic", "orders"], False), (["--api", "Produce"], True)):
        assert main([command, capture, *filters]) == 0
        assert ("known only by id" in capsys.readouterr().err) == is_said, filters


def test_a_name_that_comes_too_late_in_a_pipe_is_said() -> None:
    analysis = Analysis([io.BytesIO(CAPTURE)])
    assert sum(len(block) for block in analysis.batches()) == 3
    names = analysis.names
    assert (names.never_named, names.named_late) == (1, 1)
    text = unnamed_topics_text(0, 2)
    assert text.startswith(
        "2 topics named after their first requests: read the capture from a file"
    )
    assert unnamed_topics_text(0, 0) == ""
