from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.records.fetched import LAST_OFFSET, OffsetRanges, ProducedOffsets
from tests.support.rows import partition, row

NUMBERS = st.integers(0, 60)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=20))
def test_an_offset_has_the_number_of_its_range_if_there_is_only_one(pairs):
    ranges = OffsetRanges()
    taken: dict[int, int] = {}
    for number, (first, length) in enumerate(pairs):
        new = range(first, first + length)
        if overlapped := {taken[at] for at in new if at in taken} - {-2}:
            taken = {at: -2 if its in overlapped else its for at, its in taken.items()}
        elif not any(at in taken for at in new):
            taken |= dict.fromkeys(new, number)
        ranges.add(first, first + length, number)
    for offset in range(130):
        start, end, found = ranges.around(offset)
        assert start <= offset < end
        assert found == max(taken.get(offset, -1), -1)
        assert {ranges.around(at)[2] for at in (max(start, 0), end - 1)} <= {found}


def test_impossible_offsets_are_left_out():
    assert len(OffsetRanges([(-1, 5, 1), (5, 5, 1), (5, LAST_OFFSET + 1, 1)])) == 0


def produced(base: int, count: int | None = 10, *, start_ns: int = 1000, **item):
    items = [partition("orders", 0, base_offset=base, record_count=count, **item)]
    return row(api_name="Produce", partitions=items, request_start_ns=start_ns)


def test_produced_offsets_are_found_by_topic_id_or_else_by_name_and_broker():
    known = ProducedOffsets()
    known.note(RowBlock.of_rows([produced(0, start_ns=7), produced(10, start_ns=8, topic_id="A")]))
    ip = produced(0).broker_ip

    def time(offset, broker_ip, topic_id):
        found = known.find(broker_ip, topic_id, "orders", 0)
        return [ranges.around(offset)[2] for ranges in found]

    assert time(3, ip, None) == [7, -1]
    assert time(13, ip, None) == [-1, 8]
    assert time(3, ip, "A") == [-1, 7]
    assert time(13, "10.9.9.9", "A") == [8]
    assert time(13, ip, "B") == [-1]  # another topic with the same name
    assert time(3, "10.9.9.9", None) == []  # perhaps another cluster


def test_records_without_an_offset_have_no_produce_time():
    known = ProducedOffsets()
    rows = [
        produced(0, error_code=10),
        produced(0, None),
        row(api_name="Fetch", partitions=[partition("orders", 0, base_offset=0, record_count=1)]),
    ]
    known.note(RowBlock.of_rows(rows))
    assert known.find(rows[0].broker_ip, None, "orders", 0) == []


def test_the_lower_half_is_dropped_beyond_the_limit():
    known = ProducedOffsets(most_ranges=100)
    known.note(RowBlock.of_rows([produced(10 * n, start_ns=n) for n in range(150)]))
    (ranges,) = known.find(produced(0).broker_ip, None, "orders", 0)
    assert len(ranges) <= 100
    assert ranges.around(5)[2] == -1
    assert ranges.around(1495)[2] == 149
