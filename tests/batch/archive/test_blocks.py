"""Data that tasks send one another is read back unchanged.

Blocks of segments that tasks write to files come to their bucket sorted, each once.
"""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.batch.archive.blocks import (
    TOLD_SCHEMA,
    BlockFile,
    BlockGroup,
    BucketReport,
    CapturePart,
    SentBlock,
    Told,
    WrittenBlocks,
    dump_report,
    from_arrow_stream,
    load_report,
    pack_state,
    to_arrow_stream,
    told_batch,
    unpack_state,
)
from kanalyze.batch.archive.packed_segments import BlockError
from kanalyze.errors import UsageError
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kanalyze.batch.archive.segment_readers import StoredBlock

PARTITIONS = pa.list_(pa.struct([("topic", pa.string())]))
ROWS = pa.record_batch(
    [pa.array(["a", "b"]), pa.array([[{"topic": "t"}], []], PARTITIONS)],
    schema=pa.schema(
        [pa.field("name", pa.string(), nullable=False), pa.field("partitions", PARTITIONS)]
    ),
)


def test_what_a_task_tells_has_one_schema() -> None:
    one = told_batch(Told("report", b"x", 4))
    assert one.to_pylist() == [{"kind": "report", "data": b"x", "number": 4, "capture": ""}]
    assert one.schema == TOLD_SCHEMA


def test_an_arrow_stream_is_read_back_unchanged() -> None:
    (batch,) = from_arrow_stream(memoryview(to_arrow_stream([ROWS])))
    assert batch == ROWS


def test_a_report_is_read_back_unchanged() -> None:
    report = BucketReport(
        2, CaptureQuality(["a"]), CaptureQuality(), {b"x" * 16: "t"}, frozenset({b"y" * 16})
    )
    found = load_report(dump_report(report))
    assert found.topic_names == report.topic_names
    assert found.unresolved_ids == report.unresolved_ids
    assert found.quality.to_dict() == report.quality.to_dict()


def test_a_saved_state_is_read_back_unchanged() -> None:
    assert unpack_state(pack_state("é places", b"\0state")) == ("é places", b"\0state")
    assert unpack_state(pack_state("", b"")) == ("", b"")


def test_a_damaged_state_is_an_error() -> None:
    with pytest.raises(BlockError, match="damaged"):
        unpack_state(b"\0\0\0\2\xff\xfe")


BUCKETS = 3
PARTS = {0: CapturePart("b", 50, 0), 1: CapturePart("a", 50, 0), 2: CapturePart("a", 70, 900)}


def block(bucket: int, key_ns: int, part: int = 0, packet: int = 1, data: bytes = b"") -> SentBlock:
    _, file_time_ns, *_ = capture = (PARTS[part].capture, PARTS[part].file_time_ns)
    return SentBlock(bucket, key_ns, file_time_ns, capture[0], part, packet, data)


def written(folder: Path, *tasks: Iterable[SentBlock]) -> list[BlockGroup]:
    """Have each task write its blocks to a file."""
    groups = []
    for blocks in tasks:
        file = BlockFile(str(folder), BUCKETS)
        for one in blocks:
            file.add(one)
        groups += file.finish()
    return sorted(groups, key=lambda group: group.first_key_ns)


def read(folder: Path, groups: list[BlockGroup], bucket: int) -> list[StoredBlock]:
    blocks = pickle.loads(pickle.dumps(WrittenBlocks(str(folder), groups, PARTS)))
    return [one._replace(data=bytes(one.data)) for one in blocks.of_bucket(bucket)]


def test_a_bucket_has_its_blocks_in_the_order_of_their_times(tmp_path: Path) -> None:
    groups = written(
        tmp_path,
        [block(1, 30, data=b"late"), block(0, 10, data=b"other"), block(1, 20, data=b"early")],
        [block(1, 25, part=1, data=b"between")],
    )
    assert [one.data for one in read(tmp_path, groups, 1)] == [b"early", b"between", b"late"]
    assert [one.data for one in read(tmp_path, groups, 0)] == [b"other"]
    assert read(tmp_path, groups, 2) == []


def test_a_block_tells_where_its_packets_are(tmp_path: Path) -> None:
    groups = written(tmp_path, [block(2, 80, part=2, packet=7, data=b"x")])
    (one,) = read(tmp_path, groups, 2)
    assert one[:6] == (80, 70, "a", 7, 900, b"x")


def test_blocks_of_invalid_parts_are_ignored(tmp_path: Path) -> None:
    invalid = block(0, 1, data=b"no")._replace(part=9)
    groups = written(tmp_path, [invalid, block(0, 2, data=b"yes"), invalid._replace(bucket=1)])
    assert [one.data for one in read(tmp_path, groups, 0)] == [b"yes"]
    assert read(tmp_path, groups, 1) == []


def test_a_task_without_blocks_writes_no_file(tmp_path: Path) -> None:
    assert written(tmp_path / "blocks", []) == []
    assert not (tmp_path / "blocks").exists()


@given(
    blocks=st.lists(
        st.tuples(
            st.integers(0, BUCKETS - 1),
            st.integers(0, 6),
            st.sampled_from(sorted(PARTS)),
        ),
        max_size=40,
    ),
    group_bytes=st.sampled_from([1, 20, 1000]),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=100)
def test_groups_and_files_make_no_difference(
    tmp_path_factory: pytest.TempPathFactory,
    blocks: list[tuple[int, int, int]],
    group_bytes: int,
    seed: int,
) -> None:
    """However blocks are divided among tasks, and groups of a file, they are sorted as one list."""
    noise = random.Random(seed)
    rows = [
        block(bucket, key_ns, part, packet, noise.randbytes(noise.randrange(12)))
        for packet, (bucket, key_ns, part) in enumerate(blocks)
    ]
    tasks: list[list[SentBlock]] = [[], [], []]
    for row in rows:
        noise.choice(tasks).append(row)
    folder = tmp_path_factory.mktemp("blocks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kanalyze.batch.archive.blocks._GROUP_BYTES", group_bytes)
        groups = written(folder, *tasks)
    for bucket in range(BUCKETS):
        expected = sorted(row[1:] for row in rows if row.bucket == bucket)
        assert [one.data for one in read(folder, groups, bucket)] == [row[-1] for row in expected]


@pytest.mark.parametrize("damage", [b"", b"short", b"\xff" * 60])
def test_a_damaged_file_is_an_error(damage: bytes, tmp_path: Path) -> None:
    groups = written(tmp_path, [block(0, 1, data=b"0123456789" * 3)])
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    with pytest.raises(BlockError, match=r"\.blocks: is damaged"):
        read(tmp_path, groups, 0)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    groups = written(tmp_path, [block(0, 1, data=b"x")])
    (file,) = tmp_path.iterdir()
    file.unlink()
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path, groups, 0)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "blocks").write_bytes(b"a file")
    with pytest.raises(UsageError, match="blocks"):
        written(tmp_path / "blocks", [block(0, 1, data=b"x")])


def test_only_a_little_of_a_file_is_buffered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of one bucket are not read all at once."""
    size = 1 << 20
    monkeypatch.setattr("kanalyze.batch.archive.blocks._READ_BYTES", size)
    groups = written(tmp_path, (block(0, key, packet=key, data=bytes(size)) for key in range(8)))
    blocks = WrittenBlocks(str(tmp_path), groups, PARTS).of_bucket(0)
    assert len(next(blocks).data) == size
    (file,) = tmp_path.iterdir()
    with file.open("r+b") as changed:
        changed.truncate(3 * size)
    with pytest.raises(BlockError):
        list(blocks)
