"""Packets are missing from captures: no untouched exchange is missing, and no row is wrong.

The truth is our own rows of the whole capture (test_truth.py compares them with the broker's log).
"""

from __future__ import annotations

import random

import pytest

from tests.support.captures import CHOSEN, NAMES, analysis, in_turn, often
from tests.support.loss import Judgement, Lossy, judge, rows_without

CLEAR = [name for name in NAMES if name != "tls"]
SHARES = (0.001, 0.01, 0.1)


def dropped(lossy: Lossy, share: float, seed: int) -> frozenset[int]:
    """Numbers of the packets to drop: each with probability ``share``, at least one."""
    noise = random.Random(f"{lossy.name} {share} {seed}")
    numbers = [number for number in range(1, lossy.packets + 1) if noise.random() < share]
    return lossy.with_copies(numbers or [noise.randint(1, lossy.packets)])


def all_before(lossy: Lossy, seed: int) -> frozenset[int]:
    """Numbers of the packets before one, which the capture then begins with."""
    first = random.Random(f"{lossy.name} {seed}").randint(2, lossy.packets)
    return lossy.with_copies(range(1, first))


def check(judgement: Judgement) -> None:
    assert judgement.wrong == []
    assert judgement.missing == []


@pytest.mark.few(13)
@pytest.mark.parametrize(("name", "share"), in_turn(CLEAR, SHARES))
def test_untouched_exchanges_are_there_and_no_row_is_wrong(name: str, share: float) -> None:
    lossy = Lossy(name)
    check(lossy.judge(dropped(lossy, share, 0)))


@pytest.mark.parametrize("name", often(CLEAR, CHOSEN))
def test_a_capture_may_begin_with_any_packet(name: str) -> None:
    lossy = Lossy(name)
    for seed in range(2):
        check(lossy.judge(all_before(lossy, seed)))


@pytest.mark.long
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", CLEAR)
def test_rows_are_right_after_many_losses(name: str, share: float) -> None:
    lossy = Lossy(name)
    for seed in range(1, 31):
        check(lossy.judge(dropped(lossy, share, seed)))


@pytest.mark.long
@pytest.mark.parametrize("name", CLEAR)
def test_a_capture_may_begin_with_many_packets(name: str) -> None:
    lossy = Lossy(name)
    for seed in range(2, 32):
        check(lossy.judge(all_before(lossy, seed)))


def test_captures_that_are_left_out_have_no_rows() -> None:
    assert not any(analysis(name)[0] for name in set(NAMES) - set(CLEAR))


def test_with_nothing_dropped_every_row_is_right() -> None:
    judgement = Lossy("basics").judge([])
    check(judgement)
    assert judgement.right == judgement.untouched == judgement.complete > 250


def test_the_judge_sees_a_wrong_pairing_a_wrong_time_and_a_missing_row() -> None:
    lossy = Lossy("basics")
    rows = rows_without("basics", [])
    first, second = [row for row in rows if row.api_name == "Fetch" and row.status == "ok"][:2]
    for wrong in (
        first._replace(response_packet=second.response_packet),
        first._replace(latency_ns=(first.latency_ns or 0) + 1),
        first._replace(status="unanswered", response_packet=None),
        first._replace(request_packet=(first.request_packet or 0) + 1),
    ):
        changed = [wrong if row is first else row for row in rows]
        assert len(lossy.judge([], changed).wrong) == 1
    without = [row for row in rows if row is not first]
    missing = lossy.judge([], without).missing
    assert [row.request_start_ns for row in missing] == [first.request_start_ns]


def test_a_request_whose_response_may_be_lost_is_marked() -> None:
    lossy = Lossy("basics")
    request = next(row for row in analysis("basics")[0] if row.api_name == "Metadata")
    assert request.response_packet is not None
    rows = rows_without("basics", lossy.with_copies([request.response_packet]))
    (row,) = [row for row in rows if row.request_start_ns == request.request_start_ns]
    assert row.status == "unanswered"
    assert row.anomalies == ["lost_bytes", "unanswered_request"]


def test_the_judge_takes_rows_without_a_capture() -> None:
    assert judge([], [], frozenset(), []).rows == 0
