from __future__ import annotations

import pytest

from kanalyze.render.progress import ProgressState, RateMeter, progress_line, progress_text

HALF = ProgressState("reading", 9.0, 1_215_000_000, 2_700_000_000, 143_000_000.0)
TASKS = ProgressState("writing", 9.0, 12, 40, 2.5, "tasks")


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (HALF, "reading: 45 %, 1.22 GB of 2.70 GB, 143 MB/s, 10 s left"),
        (HALF._replace(per_second=None), "reading: 45 %, 1.22 GB of 2.70 GB, for 9 s"),
        (HALF._replace(per_second=1e5), "reading: 45 %, 1.22 GB of 2.70 GB, 100 kB/s, 4h07m left"),
        (HALF._replace(total=None), "reading: 1.22 GB, 143 MB/s, for 9 s"),
        (HALF._replace(done=0, total=None, per_second=None), "reading: for 9 s"),
        (HALF._replace(done=0, per_second=None), "reading: 0 %, 0 B of 2.70 GB, for 9 s"),
        (
            HALF._replace(done=2_699_999_999),
            "reading: 99 %, 2.70 GB of 2.70 GB, 143 MB/s, 1 s left",
        ),
        (
            HALF._replace(done=2_700_000_000),
            "reading: 100 %, 2.70 GB of 2.70 GB, 143 MB/s, for 9 s",
        ),
        (TASKS, "writing: 30 %, 12 of 40 tasks, 2.5 tasks/s, 11 s left"),
        (TASKS._replace(total=None, per_second=None), "writing: 12 tasks, for 9 s"),
        (ProgressState("comparing", 75.4), "comparing: for 75 s"),
    ],
)
def test_a_line_of_a_log_has_the_known_figures(state: ProgressState, text: str) -> None:
    assert progress_text(state) == text


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (
            200,
            "reading  [####......]  45 %  1.22 GB of 2.70 GB  143 MB/s  10 s left",
        ),
        (60, "reading  45 %  1.22 GB of 2.70 GB  143 MB/s  10 s left"),
        (50, "reading  45 %  143 MB/s  10 s left"),
        (30, "reading  45 %  10 s left"),
        (10, "reading  4"),
    ],
)
def test_a_narrow_terminal_has_fewer_figures(width: int, line: str) -> None:
    assert progress_line(HALF, width) == line


def test_no_line_is_wider_than_the_terminal() -> None:
    states = [HALF, TASKS, HALF._replace(total=None), ProgressState("comparing", 1e9)]
    assert all(len(progress_line(state, n)) <= n for state in states for n in range(100))


def test_a_share_above_one_is_shown_as_100_percent() -> None:
    """A capture may grow while it is read."""
    assert progress_text(HALF._replace(done=3_000_000_000)).startswith("reading: 100 %")


def test_the_rate_is_over_the_last_ten_seconds() -> None:
    meter = RateMeter()
    assert meter.add(0.0, 0, 1000) is None
    assert meter.add(5.0, 500, 1000) == 100
    assert meter.add(10.0, 600, 1000) == 60
    assert meter.add(15.0, 650, 1000) == 15
    assert meter.add(25.0, 650, 1000) is None


def test_a_rate_restarts_with_a_new_amount_or_total() -> None:
    meter = RateMeter()
    meter.add(0.0, 0, 40)
    assert meter.add(1.0, 10, 40) == 10
    assert meter.add(2.0, 5, 40) is None
    assert meter.add(3.0, 7, 40) == 2
    assert meter.add(4.0, 8, 9) is None


def test_the_rate_is_kept_when_the_total_becomes_known() -> None:
    meter = RateMeter()
    meter.add(0.0, 0, None)
    assert meter.add(1.0, 10, 40) == 10
