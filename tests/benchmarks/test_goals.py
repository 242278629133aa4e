from __future__ import annotations

from benchmarks import goals
from tests.benchmarks.test_figures import made, table, took

JOBS = {"requests --jobs 1": took(2.0), "requests --jobs 2": took(1.2, 1.0)}
TEN_FOLD = table(
    "java",
    10,
    {
        **JOBS,
        "requests to CSV --jobs 1": took(3.0),
        "report": took(5.0, peak_mib=300),
        "tshark": took(21.0, 20.0),
    },
)


def test_tshark_is_beside_the_cpu_of_one_job_and_the_time_of_two() -> None:
    small = table("small", 10, {**JOBS, "tshark": took(30.0)})
    one_fold = table("java", 1, {**JOBS, "tshark": took(1.0)})
    without_tshark = table("bulk", 50, JOBS)
    # The quickest runs: 20 s of CPU and 40 by the clock, beside 2 s, and 2 by the clock.
    assert list(goals.beside_tshark(made(TEN_FOLD, one_fold, small, without_tshark))) == [
        (("requests",), ["java 10-fold", "requests", "10.0", "16", "20.0", "28"]),
        (("requests",), ["small 10-fold", "requests", "15.0", "14", "30.0", "25"]),
    ]


def test_bounds_are_of_what_was_measured() -> None:
    once = {"anonymize --jobs 1": took(1.0), "anonymize --jobs 2": took(0.125)}
    short = table("java", 1, {"decode": took(4.0), "records": took(5.0), **once})
    assert [cells for _, cells in goals.bounds(made(TEN_FOLD, short))] == [
        ["java 10-fold", "CPU of requests --jobs 2 ÷ requests", "0.50", "at most 1.1"],
        ["java 10-fold", "CPU of report ÷ requests", "2.50", "at most 1.5"],
        ["java 10-fold", "CPU of requests to CSV ÷ requests", "1.50", "at most 1.5"],
        ["java", "CPU of records ÷ decode", "1.25", "at most 1.5"],
        ["java", "MB/s of anonymize", "40.0", "at least 40"],
        ["any", "MB of memory of requests", "105", "at most 160"],
        ["any", "MB of memory of report", "315", "at most 250"],
    ]
