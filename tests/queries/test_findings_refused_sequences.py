"""Batches that a broker refuses by their sequence numbers, in captures made for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.queries.test_findings_written_twice import Producer
from tests.support.timeline import Timeline

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.queries.finding import Finding

ID, EPOCH = 70_000_000_001, 2
"""A producer's, whose first 8 records of the partition were acknowledged."""
OUT_OF_ORDER, DUPLICATE, UNKNOWN_PRODUCER = 45, 46, 59
NAMES = {
    OUT_OF_ORDER: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    DUPLICATE: "DUPLICATE_SEQUENCE_NUMBER",
    UNKNOWN_PRODUCER: "UNKNOWN_PRODUCER_ID",
}


def refused(timeline: Timeline, at_s: float, code: int, *, base: int = 8) -> Producer:
    """A producer of which a batch of 4 records from sequence ``base`` on is refused."""
    shop = Producer(timeline, "shop")
    shop.sends(at_s, 3, sequence=(ID, EPOCH, 0)).gets(at_s + 0.01, 10)
    shop.sends(at_s + 1, 5, sequence=(ID, EPOCH, 3)).gets(at_s + 1.01, 13)
    return shop.sends(at_s + 2, 4, sequence=(ID, EPOCH, base)).gets(at_s + 2.01, -1, code)


def found(timeline: Timeline, folder: Path) -> list[Finding]:
    return timeline.findings(folder, "refused_sequences")


HEAD = "1 of {} batches refused, in 1 partition such as 0, of producer 70000000001 epoch 2; "
AGAIN = "{} accepted when sent again with another epoch"
NONE = AGAIN.format(0)
FORGOTTEN = "1 follows the last acknowledged batch: the broker had forgotten the producer"


@pytest.mark.parametrize(
    ("code", "base", "text"),
    [
        (
            OUT_OF_ORDER,
            15,
            f"{NONE}; before 1, records are missing, such as 7 from sequence 8 on",
        ),
        (
            OUT_OF_ORDER,
            6,
            f"{NONE}; 1 begins within what was acknowledged before",
        ),
        (
            UNKNOWN_PRODUCER,
            8,
            f"{NONE}; {FORGOTTEN}",
        ),
        (
            DUPLICATE,
            0,
            "their records are in the log already; 1 begins within what was acknowledged before",
        ),
    ],
)
def test_a_refused_batch_is_held_against_the_last_acknowledged_one(
    code: int, base: int, text: str, tmp_path: Path
) -> None:
    timeline = Timeline()
    refused(timeline, 1, code, base=base)
    [finding] = found(timeline, tmp_path)
    assert finding.what == HEAD.format(3) + text
    assert finding.concerns == {
        "client_id": "shop",
        "client_ip": "10.0.0.7",
        "topic": "orders",
        "api_name": "Produce",
        "error_name": NAMES[code],
    }
    assert finding.first_time_ns == finding.last_time_ns


def test_what_was_accepted_when_it_was_sent_again_in_order_is_none(tmp_path: Path) -> None:
    timeline = Timeline()
    shop = refused(timeline, 1, OUT_OF_ORDER, base=10)
    # The batch before comes again, then this one.
    shop.sends(4, 2, sequence=(ID, EPOCH, 8)).gets(4.01, 18)
    shop.sends(5, 4, sequence=(ID, EPOCH, 10)).gets(5.01, 20)
    assert found(timeline, tmp_path) == []


@pytest.mark.parametrize(
    ("epoch", "base", "records", "each", "count"),
    [
        (EPOCH + 1, 0, 4, 50, 1),
        # Not the first of the new epoch, fewer records, and records of other sizes.
        (EPOCH + 1, 3, 4, 50, 0),
        (EPOCH + 1, 0, 2, 50, 0),
        (EPOCH + 1, 0, 4, 49, 0),
        (EPOCH, 8, 4, 49, 0),
    ],
)
def test_a_batch_is_the_same_with_the_first_number_of_another_epoch(
    epoch: int, base: int, records: int, each: int, count: int, tmp_path: Path
) -> None:
    timeline = Timeline()
    shop = refused(timeline, 1, UNKNOWN_PRODUCER)
    shop.sends(4, records, each=each, sequence=(ID, epoch, base)).gets(4.01, 18)
    [finding] = found(timeline, tmp_path)
    assert finding.what == HEAD.format(4) + f"{AGAIN.format(count)}; {FORGOTTEN}"


def test_what_is_acknowledged_again_does_not_move_the_next_number_back(tmp_path: Path) -> None:
    timeline = Timeline()
    shop = refused(timeline, 1, OUT_OF_ORDER, base=20)
    shop.sends(4, 3, sequence=(ID, EPOCH, 0)).gets(4.01, 10)
    shop.sends(5, 4, sequence=(ID, EPOCH, 15)).gets(5.01, -1, OUT_OF_ORDER)
    [finding] = found(timeline, tmp_path)
    # 7 records and not 12: what is said of an example is of one batch.
    text = "; before 2, records are missing, such as 7 from sequence 8 on"
    assert finding.what == "2 of 5" + HEAD.format(5)[len("1 of 5") :] + NONE + text


def test_a_broker_that_knows_the_producer_has_lost_what_it_acknowledged(tmp_path: Path) -> None:
    timeline = Timeline()
    refused(timeline, 1, OUT_OF_ORDER)
    [finding] = found(timeline, tmp_path)
    assert finding.what == HEAD.format(3) + f"{NONE}; {FORGOTTEN}, or lost what it acknowledged"


def test_after_the_last_sequence_number_comes_0(tmp_path: Path) -> None:
    timeline = Timeline()
    shop = Producer(timeline, "shop").sends(1, 3, sequence=(ID, EPOCH, 2**31 - 2)).gets(1.01, 10)
    shop.sends(2, 4, sequence=(ID, EPOCH, 1)).gets(2.01, -1, UNKNOWN_PRODUCER)
    [finding] = found(timeline, tmp_path)
    assert finding.what.endswith(f"; {FORGOTTEN}")


@pytest.mark.parametrize("other", [(ID + 1, EPOCH, 0), (ID, EPOCH + 1, 0), (-1, -1, -1)])
def test_other_producers_and_epochs_have_numbers_of_their_own(
    other: tuple[int, int, int], tmp_path: Path
) -> None:
    timeline = Timeline()
    shop = Producer(timeline, "shop").sends(1, 3, sequence=other).gets(1.01, 10)
    shop.sends(2, 4, sequence=(ID, EPOCH, 5)).gets(2.01, -1, OUT_OF_ORDER)
    [finding] = found(timeline, tmp_path)
    assert finding.what == HEAD.format(2) + NONE


@pytest.mark.parametrize("code", [0, 6, 47, 90])
def test_batches_with_other_codes_are_none(code: int, tmp_path: Path) -> None:
    timeline = Timeline()
    refused(timeline, 1, code)
    assert found(timeline, tmp_path) == []
