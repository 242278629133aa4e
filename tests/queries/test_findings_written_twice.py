"""Records written twice, in captures made for it: in two ways, and what is written once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import kafka as k
from tests.support.packets import ACK, FIN
from tests.support.timeline import Timeline
from tests.support.traffic import TO_BROKER, Line, Part, produce, produce_answer

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.queries.finding import Finding

PORT = 40000


def part(
    records: int,
    offset: int = 0,
    error_code: int = 0,
    partition: int = 0,
    each: int = 50,
    sequence: tuple[int, int, int] = (-1, -1, -1),
) -> Part:
    batch = k.record_batch(records, each * records, producer=sequence)
    return Part(
        "orders", records=batch, base_offset=offset, error_code=error_code, partition=partition
    )


class Producer:
    """A producer that waits for each answer, on one connection after the other."""

    def __init__(self, timeline: Timeline, client_id: str, port: int = PORT) -> None:
        self.timeline, self.client_id, self.port = timeline, client_id, port
        self.line: Line | None = None
        self.number = 0

    def sends(
        self,
        at_s: float,
        records: int,
        partition: int = 0,
        each: int = 50,
        *,
        sequence: tuple[int, int, int] = (-1, -1, -1),
    ) -> Producer:
        self.timeline.at(at_s)
        if self.line is None:
            self.port += 1
            self.line = self.timeline.line(self.port, "10.0.0.7").open()
        self.number += 1
        parts = [part(records, partition=partition, each=each, sequence=sequence)]
        sent = produce(self.number, 9, parts, client_id=self.client_id)
        self.line.client(sent)
        return self

    def gets(self, at_s: float, offset: int, error_code: int = 0, partition: int = 0) -> Producer:
        self.timeline.at(at_s)
        assert self.line is not None
        answered = [part(1, offset, error_code, partition)]
        self.line.broker(produce_answer(self.number, 9, answered))
        return self

    def gives_up(self, at_s: float) -> Producer:
        self.timeline.at(at_s)
        assert self.line is not None
        self.line.close()
        self.line = None
        return self


def found(timeline: Timeline, folder: Path) -> list[Finding]:
    return timeline.findings(folder, "written_twice")


def test_a_batch_whose_answer_was_lost_is_appended_again(tmp_path: Path) -> None:
    timeline = Timeline()
    shop = Producer(timeline, "shop").sends(1, 3).gets(1.01, 10)
    shop.sends(2, 5).gives_up(12)
    # 13 to 17 were appended by the first attempt.
    shop.sends(12.5, 5).gets(12.51, 18).sends(13, 2).gets(13.01, 23)
    [finding] = found(timeline, tmp_path)
    assert finding.what == (
        "1 of 1 batch sent again was appended again: 5 records in 1 partition, such as 5 from "
        "offset 13 on, written again; the first attempts had no answer"
    )
    assert finding.concerns == {
        "client_id": "shop",
        "client_ip": "10.0.0.7",
        "topic": "orders",
        "api_name": "Produce",
    }


def test_batches_that_replicas_were_too_late_for_are_appended_with_each_attempt(
    tmp_path: Path,
) -> None:
    timeline = Timeline()
    till = Producer(timeline, "till").sends(1, 4, 2).gets(1.01, 100, 0, 2)
    for attempt in range(3):
        till.sends(2 + attempt, 6, 2).gets(2.5 + attempt, -1, 20, 2)
    till.sends(6, 6, 2).gets(6.1, 122, 0, 2)
    # Another batch is sent again, and was not appended before: the broker refused it.
    till.sends(7, 7, 2).gets(7.5, -1, 7, 2).sends(8, 7, 2).gets(8.1, 128, 0, 2)
    [finding] = found(timeline, tmp_path)
    assert finding.what == (
        "1 of 2 batches sent again were appended again: 18 records in 1 partition, such as 6 from "
        "offset 104 on, written again; the first attempts had an error that comes after the append"
    )


def test_batches_of_other_sizes_were_appended_before_the_first_that_succeeds(
    tmp_path: Path,
) -> None:
    timeline = Timeline()
    shop = Producer(timeline, "shop").sends(1, 3).gets(1.01, 10)
    shop.sends(2, 4, each=60).sends(2.1, 4).sends(2.2, 4, each=70).gives_up(12)
    # The first attempts of two of them are 13 to 20.
    for number, each in enumerate((60, 50, 70)):
        shop.sends(13 + number, 4, each=each).gets(13.1 + number, 21 + 4 * number)
    [finding] = found(timeline, tmp_path)
    assert finding.what == (
        "2 of 3 batches sent again were appended again: 8 records in 1 partition, such as 4 from "
        "offset 13 on, written again; the first attempts had no answer"
    )


def test_an_answer_that_comes_when_the_client_has_gone_is_none(tmp_path: Path) -> None:
    timeline = Timeline()
    shop = Producer(timeline, "shop").sends(1, 3).gets(1.01, 10).sends(2, 5)
    left = shop.line
    assert left is not None
    timeline.at(4)
    left._send(TO_BROKER, FIN | ACK)
    shop.line = None
    timeline.at(4.5)
    left.broker(produce_answer(shop.number, 9, [part(1, 13)]))
    shop.sends(5, 5).gets(5.01, 18)
    [finding] = found(timeline, tmp_path)
    assert finding.what == (
        "1 of 1 batch sent again was appended again: 5 records in 1 partition, such as 5 from "
        "offset 13 on, written again; the first attempts had an answer when the client had gone"
    )


def written_once(case: str) -> Timeline:
    timeline = Timeline()
    shop = Producer(timeline, "shop").sends(1, 3).gets(1.01, 10)
    shop.sends(2, 5).gives_up(12)
    if case == "the broker had not got it, or knows that it has it":
        shop.sends(12.5, 5).gets(12.51, 13)
    elif case == "another wrote meanwhile, more":
        other = Producer(timeline, "other", 50000).sends(3, 5).gets(3.01, 13)
        other.sends(4, 4).gets(4.01, 18)
        shop.sends(12.5, 5).gets(12.51, 22)
    elif case == "other records are sent":
        shop.sends(12.5, 2).gets(12.51, 18)
    elif case == "nobody knows where the log ended":
        shop.sends(12.5, 5, 1).gets(12.51, 18, 0, 1)
    return timeline


@pytest.mark.parametrize(
    "case",
    [
        "the broker had not got it, or knows that it has it",
        "another wrote meanwhile, more",
        "other records are sent",
        "nobody knows where the log ended",
        "it is not sent again",
    ],
)
def test_what_is_written_once_is_no_finding(case: str, tmp_path: Path) -> None:
    assert found(written_once(case), tmp_path) == []


ID, EPOCH = 4000, 3
"""A producer's."""


def idempotent(*again: tuple[float, int, int, int]) -> Timeline:
    """A batch of 5 records whose answer was lost, and what is sent at last.

    There was room for 5 records meanwhile. ``again``: when, how many records, epoch and sequence.
    """
    timeline = Timeline()
    shop = Producer(timeline, "shop").sends(1, 3, sequence=(ID, EPOCH, 0)).gets(1.01, 10)
    shop.sends(2, 5, sequence=(ID, EPOCH, 3)).gives_up(12)
    offset = 18
    for at_s, records, epoch, sequence in again:
        shop.sends(at_s, records, sequence=(ID, epoch, sequence)).gets(at_s + 0.01, offset)
        offset += records
    return timeline


@pytest.mark.parametrize(
    "again",
    [
        ((12.5, 5, EPOCH, 3),),
        # Batched anew: in one that is larger, or in parts.
        ((12.5, 7, EPOCH, 3),),
        ((12.5, 2, EPOCH, 3), (12.6, 3, EPOCH, 5), (12.7, 5, EPOCH, 8)),
        # Others, which are as many.
        ((12.5, 5, EPOCH, 8),),
    ],
)
def test_a_broker_appends_no_sequence_number_twice(
    again: tuple[tuple[float, int, int, int], ...], tmp_path: Path
) -> None:
    assert found(idempotent(*again), tmp_path) == []


def test_a_producer_that_begins_anew_may_write_records_twice(tmp_path: Path) -> None:
    timeline = idempotent((12.5, 5, EPOCH + 1, 0))
    [finding] = found(timeline, tmp_path)
    assert finding.what.startswith("1 of 1 batch sent again was appended again: 5 records in 1 ")


def test_what_was_written_once_counts_among_what_was_sent_again(tmp_path: Path) -> None:
    timeline = idempotent((12.5, 5, EPOCH + 1, 0))
    shop = Producer(timeline, "shop", PORT + 100).sends(14, 2, 1, sequence=(ID, 4, 0)).gives_up(24)
    shop.sends(25, 4, 1, sequence=(ID, 4, 0)).gets(25.01, 100, 0, 1)
    [finding] = found(timeline, tmp_path)
    assert finding.what.startswith("1 of 2 batches sent again were appended again: 5 records in 1 ")
