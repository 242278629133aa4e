"""An archive on Spark gives the same rows as `kanalyze requests`."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

import kanalyze
from kanalyze.batch.packets import packet_batches
from kanalyze.capture.inputs import FoundCapture
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.splits import MIN_SPLIT_BYTES, Split, plan_splits
from kanalyze.errors import CaptureError
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.spark.archive import read_captures, read_packets
from kanalyze.spark.schema import spark_schema
from kanalyze.spark.source.datasource import KanalyzeDataSource
from kanalyze.spec.rows.cluster import REQUEST_ID
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.quality import CaptureQuality
from tests.support import kafka as k
from tests.support import topic_ids as t
from tests.support.archives import WAYS, a_job, cut, placed, rows_of
from tests.support.captures import NAMES, analysis, path
from tests.support.cut_captures import packets_of, write_pcap
from tests.support.packets import START_NS, Packet, pcap_file, timed
from tests.support.spark import own_session
from tests.support.traffic import Line, capture_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.batch.archive.tasks import Job
    from kanalyze.spark.archive import ArchiveSegments, RebuiltConnections
    from kanalyze.spec.rows.requests import Row
    from tests.support.archives import Sent

COUNTS = (1, 2, 7, 50)
BUCKETS = range(1, 9)
HOUR_NS = 3_600_000_000_000


def whole(file: str | Path) -> Split:
    """A file that one task reads as a whole."""
    return Split(str(file), 0, 1, 0, None, True)


def divided_among_tasks(files: Iterable[str], seed: object) -> list[list[Split]]:
    """Divide files in random order among several tasks."""
    noise = random.Random(repr(seed))
    shuffled = sorted(files)
    noise.shuffle(shuffled)
    tasks: dict[int, list[Split]] = {}
    for file in shuffled:
        tasks.setdefault(noise.randrange(5), []).append(whole(file))
    return list(tasks.values())


def parts_of(file: Path) -> list[Split]:
    """Split a large file into as many parts as are allowed."""
    return plan_splits(FoundCapture(str(file)), Stores(), MIN_SPLIT_BYTES)


def counted(rows: Iterable[Row]) -> Counter[str]:
    """Count rows with all their columns, whatever their order."""
    return Counter(map(repr, rows))


def rows_in(frame: DataFrame) -> list[Row]:
    return [row for batch in frame.toArrow().to_batches() for row in rows_of(batch)]


class Archive(NamedTuple):
    """The result of reading captures; its frames are closed."""

    captured: ArchiveSegments
    connections: RebuiltConnections
    rows: list[Row]

    @property
    def quality(self) -> CaptureQuality:
        quality = CaptureQuality()
        quality.merge(self.captured.read_summary.quality)
        quality.merge(self.connections.summary.quality)
        return quality


def rebuild(captured: ArchiveSegments) -> Archive:
    with closing(captured), closing(captured.rebuild()) as connections:
        return Archive(captured, connections, rows_in(connections.rows))


def read_archive(spark: SparkSession, job: Job, tasks: Sequence[Sequence[Split]]) -> Archive:
    return rebuild(read_captures(spark, job, tasks))


# -- cut captures ---------------------------------------------------------------------------------


class Case(NamedTuple):
    name: str
    count: int
    buckets: int
    sent: Sent


def all_cases() -> list[Case]:
    """Each capture in each number of files, with a random number of buckets."""
    noise = random.Random(1)
    return [
        Case(name, count, noise.choice(BUCKETS), noise.choice(WAYS))
        for name, count in product(NAMES, COUNTS)
    ]


def quality_of(*files: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Extent and quality of captures, as one process reports them."""
    rows = kanalyze.requests(*files)
    for _ in rows:
        pass
    assert rows.quality is not None
    return extent_and_quality(rows.quality)


def extent_and_quality(quality: CaptureQuality) -> tuple[dict[str, Any], dict[str, Any]]:
    return quality.extent(), quality.to_dict()


def assert_rows_of_one_process(spark: SparkSession, case: Case, folder: Path) -> None:
    files = cut(case.name, case.count, folder)

    job = a_job(case.buckets, sent=case.sent, folder=folder / "blocks")
    archive = read_archive(spark, job, divided_among_tasks(files.files, case))

    assert counted(archive.rows) == counted(kanalyze.requests(*files.files))
    assert counted(archive.rows) == counted(placed(analysis(case.name)[0], files))


@pytest.mark.parametrize("sent", WAYS)
def test_rows_match_one_process(spark: SparkSession, sent: Sent, tmp_path: Path) -> None:
    """`test_tasks.py` has other numbers of files and buckets, without Spark."""
    assert_rows_of_one_process(spark, Case("waits", 7, 8, sent), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_rows_of_all_captures_match_one_process(
    spark: SparkSession, case: Case, tmp_path: Path
) -> None:
    assert_rows_of_one_process(spark, case, tmp_path)


def test_without_packets_there_are_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "empty.pcap"
    file.write_bytes(pcap_file([]))
    job = a_job()

    no_files = read_archive(spark, job, [])
    empty_file = read_archive(spark, job, [[whole(file)]])

    assert no_files.rows == empty_file.rows == []
    assert extent_and_quality(empty_file.quality) == quality_of(str(file))


def test_columns_match_the_declared_columns(spark: SparkSession, tmp_path: Path) -> None:
    tasks = [[whole(cut("waits", 1, tmp_path).files[0])]]
    with closing(read_captures(spark, a_job(), tasks)) as captured:
        with closing(captured.rebuild()) as connections:
            types = [(field.name, field.dataType) for field in connections.rows.schema]
        fewer_columns = a_job(columns="latency_ns,partitions,api_name")._replace(others=frozenset())
        with closing(captured.rebuild(fewer_columns)) as connections:
            assert connections.rows.columns == ["latency_ns", "partitions", "api_name"]
            api_names = Counter(row.api_name for row in connections.rows.collect())
    expected = spark_schema((REQUEST_ID, *COLUMNS))
    assert types == [(field.name, field.dataType) for field in expected]
    assert api_names == Counter(row.api_name for row in analysis("waits")[0])


@pytest.mark.long
def test_quality_matches_one_process(spark: SparkSession, tmp_path: Path) -> None:
    files = []
    for name in ("errors", "codecs"):
        (tmp_path / name).mkdir()
        files += cut(name, 7, tmp_path / name).files

    archive = read_archive(spark, a_job(3), divided_among_tasks(files, "report"))

    assert counted(archive.rows) == counted(kanalyze.requests(*files))
    assert extent_and_quality(archive.quality) == quality_of(*files)


# -- tables of packets ----------------------------------------------------------------------------


@pytest.mark.long
def test_packets_of_the_data_source_give_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    files = cut("groups", 7, tmp_path).files
    session = own_session(spark)
    session.dataSource.register(KanalyzeDataSource)
    packets = session.read.format("kanalyze").option("table", "packets").load(files)

    archive = rebuild(
        read_packets(session, a_job(3, sent="written", folder=tmp_path / "blocks"), packets)
    )

    assert counted(archive.rows) == counted(kanalyze.requests(*files))
    assert archive.quality.packets == analysis("groups")[1].packets


def test_packets_of_any_table_give_the_same_rows_in_any_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = cut("transactions", 7, tmp_path).files
    table = pa.Table.from_batches(batch for file in files for batch in packet_batches(file))
    shuffled = list(range(len(table)))
    random.Random(3).shuffle(shuffled)
    packets = spark.createDataFrame(table.take(shuffled)).repartition(3)

    archive = rebuild(
        read_packets(spark, a_job(5, sent="written", folder=tmp_path / "blocks"), packets)
    )

    assert counted(archive.rows) == counted(kanalyze.requests(*files))


# -- files that are no captures -------------------------------------------------------------------


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    file = tmp_path / "notes.pcap"
    file.write_text("no packets here")
    return file


def test_a_foreign_file_is_an_error(spark: SparkSession, foreign: Path, tmp_path: Path) -> None:
    files = cut("waits", 2, tmp_path).files

    with pytest.raises(CaptureError, match=r"notes\.pcap: is not a pcap or pcapng file"):
        read_captures(spark, a_job(), [[whole(files[0]), whole(foreign)], [whole(files[1])]])


def test_a_foreign_file_is_left_out_in_quarantine_mode(
    spark: SparkSession, foreign: Path, tmp_path: Path
) -> None:
    files = cut("waits", 2, tmp_path).files
    tasks = [[whole(files[0]), whole(foreign)], [whole(files[1])]]

    archive = read_archive(spark, a_job(mode="quarantine"), tasks)

    assert counted(archive.rows) == counted(kanalyze.requests(*files))
    ((name, reason),) = archive.captured.read_summary.unreadable.items()
    assert name == str(foreign)
    assert reason.startswith(f"{foreign}: is not a pcap or pcapng file")
    assert archive.quality.anomalies[AnomalyKind.CAPTURE_UNREADABLE].count == 1


# -- large files ----------------------------------------------------------------------------------


def write_repeated(name: str, times: int, file: Path) -> None:
    """Write the packets of a capture several times, an hour apart."""
    packets = packets_of(path(name))
    write_pcap(
        file,
        [
            packet._replace(time_ns=packet.time_ns + turn * HOUR_NS)
            for turn in range(times)
            for packet in packets
        ],
    )


@pytest.mark.long
def test_a_large_file_is_read_by_several_tasks(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "large.pcap"
    write_repeated("large", 3, file)
    splits = parts_of(file)
    assert len(splits) == 4

    archive = read_archive(spark, a_job(3), [[split] for split in reversed(splits)])

    assert {part for _, part in archive.captured.read_summary.packets_before} == set(
        range(len(splits))
    )
    assert counted(archive.rows) == counted(kanalyze.requests(str(file)))
    assert archive.quality.packets == 3 * analysis("large")[1].packets


def test_parts_that_began_at_a_wrong_offset_are_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "captures in a topic.pcap"
    file.write_bytes(captures_in_a_topic(62))
    splits = parts_of(file)
    assert len(splits) == 3

    archive = read_archive(spark, a_job(3), [splits[:1], splits[1:]])

    # Parts 1 and 2 were read again, as 3 and 4: their first reports do not count.
    assert {part for _, part in archive.captured.read_summary.packets_before} == {0, 3, 4}
    assert len(archive.rows) == 62
    assert counted(archive.rows) == counted(kanalyze.requests(str(file)))


def captures_in_a_topic(count: int) -> bytes:
    """Produce requests of one packet each, whose records contain captures."""
    noise = random.Random(5)
    packets: list[bytes] = []
    line = Line(packets).open()
    for number in range(count):
        inside = [Packet(noise.randbytes(100), START_NS + i) for i in range(517)]
        records = k.record_batch(size=0) + pcap_file(inside)
        line.client(k.produce(number, 1, records=records)).broker(k.produce_answer(number))
    return capture_of(packets)


# -- names of topics ------------------------------------------------------------------------------

OTHER_ID = bytes(15) + b"\7"
PORTS = range(50001, 50009)
METADATA_PORT = 50010


@pytest.fixture
def metadata_in_second_file(tmp_path: Path) -> list[str]:
    """Connections that use topic ids, and a second capture whose Metadata response has a name."""
    packets: list[bytes] = []
    for port in PORTS:
        line = Line(packets, port).open()
        for number, topic_id in enumerate([t.TOPIC_ID, OTHER_ID]):
            line.client(t.produce(number, topic_id)).broker(t.produce_answer(number, topic_id))
    before = len(packets)
    Line(packets, METADATA_PORT).open().client(t.metadata(1)).broker(t.metadata_answer(1, "orders"))
    files = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    files[0].write_bytes(pcap_file(timed(packets)[:before]))
    files[1].write_bytes(pcap_file(timed(packets)[before:]))
    return [str(file) for file in files]


def topics_of(rows: Iterable[Row]) -> Counter[str | None]:
    return Counter(part.topic for row in rows for part in row.partitions)


def test_topic_names_from_another_bucket_are_used(
    spark: SparkSession, metadata_in_second_file: list[str]
) -> None:
    archive = read_archive(spark, a_job(4), [[whole(file)] for file in metadata_in_second_file])

    assert archive.connections.summary.missing_names({}) == {}  # no bucket was rebuilt for a name
    # The Metadata response contains the name too.
    assert topics_of(archive.rows) == {"orders": len(PORTS) + 1, None: len(PORTS)}
    assert counted(archive.rows) == counted(kanalyze.requests(*metadata_in_second_file))


def test_topic_names_of_earlier_jobs_are_used(
    spark: SparkSession, metadata_in_second_file: list[str]
) -> None:
    captured = read_captures(spark, a_job(4), [[whole(metadata_in_second_file[0])]])
    with closing(captured), closing(captured.rebuild(names={OTHER_ID: "clicks"})) as connections:
        rows = rows_in(connections.rows)

    assert topics_of(rows) == {"clicks": len(PORTS), None: len(PORTS)}
    assert connections.summary.topic_names[OTHER_ID] == "clicks"
    assert t.TOPIC_ID not in connections.summary.topic_names


# -- one job after another ------------------------------------------------------------------------


def requests_quality(files: Sequence[str]) -> CaptureQuality:
    rows = kanalyze.requests(*files)
    assert sum(map(len, rows.batches())) > 0
    assert rows.quality is not None
    return rows.quality
