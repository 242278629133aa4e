from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import kanalyze
from benchmarks.errors import BenchmarkError
from benchmarks.repeat import repeat
from tests.support.captures import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

TIMES = 3
# The first has brokers with low ports; in the second, ports of clients may be lower or higher.
NAMES = ("basics.pcap", "mock.pcap")


@pytest.mark.parametrize("name", NAMES)
def test_every_repetition_has_the_exchanges_of_the_source(name: str, tmp_path: Path) -> None:
    source, target = FOLDER / name, tmp_path / name
    packets = repeat(source, TIMES, target)
    once, longer = kanalyze.requests(str(source)), kanalyze.requests(str(target))
    first_rows, rows = list(once), list(longer)

    def facts(row: kanalyze.Row) -> tuple[object, ...]:
        return (row.api_name, row.client_id, row.correlation_id, row.latency_ns, row.broker_port)

    expected = Counter({facts: TIMES * n for facts, n in Counter(map(facts, first_rows)).items()})
    assert Counter(map(facts, rows)) == expected
    assert packets == longer.quality.packets == TIMES * once.quality.packets
    assert longer.quality.connections == TIMES * once.quality.connections


@pytest.mark.parametrize("name", NAMES)
def test_each_repetition_has_another_client_address_and_the_same_brokers(
    name: str, tmp_path: Path
) -> None:
    repeat(FOLDER / name, TIMES, tmp_path / name)
    rows = list(kanalyze.requests(str(tmp_path / name)))
    assert {row.client_ip for row in rows} == {f"10.0.0.{number}" for number in range(TIMES)}
    assert {row.broker_ip for row in rows} == {
        row.broker_ip for row in kanalyze.requests(str(FOLDER / name))
    }


def test_repetitions_come_one_after_the_other(tmp_path: Path) -> None:
    repeat(FOLDER / "mock.pcap", TIMES, tmp_path / "long.pcap")
    rows = list(kanalyze.requests(str(tmp_path / "long.pcap")))
    times = {
        ip: [row.request_start_ns for row in rows if row.client_ip == ip and row.request_start_ns]
        for ip in (f"10.0.0.{number}" for number in range(TIMES))
    }
    ranges = [(min(times_ns), max(times_ns)) for times_ns in times.values()]
    assert all(first[1] < second[0] for first, second in pairwise(ranges))


def test_a_file_that_is_no_ethernet_pcap_is_refused(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((FOLDER / "mock.pcap").read_bytes()[:-1])
    empty = tmp_path / "empty.pcap"
    empty.write_bytes((FOLDER / "mock.pcap").read_bytes()[:24])
    for source in (FOLDER / "errors.pcapng", FOLDER / "any.pcap", cut, empty):
        with pytest.raises(BenchmarkError, match=source.name):
            repeat(source, 2, tmp_path / "target.pcap")
