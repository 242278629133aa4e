"""The tasks of an archive, without Spark, give the rows of one process, however files are cut."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.batch.archive.blocks import from_arrow_stream
from kanalyze.batch.archive.planning import ReadSummary
from kanalyze.batch.archive.table_files import OPEN_CONNECTIONS
from kanalyze.batch.archive.tasks import rebuild_buckets
from kanalyze.errors import CaptureError
from kanalyze.export.arrow import BatchMaker
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.tables import TABLES
from tests.support import proxied
from tests.support.archives import WAYS, a_job, cut, placed, read_all, rebuilt, rows_of
from tests.support.captures import NAMES, analysis, in_turn
from tests.support.cut_captures import packets_of, write_pcap
from tests.support.disorder import TRANSFORMATIONS, Stage, altered
from tests.support.disorder.compare import write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.requests import Row
    from tests.support.archives import Sent

BUCKETS = {1: 3, 2: 1, 7: 8, 50: 5}
"""Numbers of buckets, by number of files."""
FILES_AND_WAYS = list(product(BUCKETS, WAYS))
"""Numbers of files, and how segments are sent."""
PCAP_HEADER_BYTES = 24
EACH_WAY = pytest.mark.parametrize("sent", WAYS)
OFTEN = ("basics", "codecs", "errors", "ipv6", "old-0-8-2-2", "sasl", "snaplen", "tls")


def counted(rows: list[Row] | list[AnomalyRow]) -> Counter[str]:
    return Counter(map(repr, rows))


def read(files: list[str]) -> tuple[list[Row], Analysis]:
    run = Analysis(files)
    return [row for batch in run.row_batches() for row in batch], run


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "way"), in_turn(NAMES, FILES_AND_WAYS, OFTEN))
def test_rows_match_one_process(name: str, way: tuple[int, Sent], tmp_path: Path) -> None:
    count, sent = way
    files = cut(name, count, tmp_path)
    rows, run = read(files.files)

    actual = rebuilt(a_job(BUCKETS[count], sent=sent), files.files)

    assert counted(actual.rows) == counted(rows)
    assert counted(actual.rows) == counted(placed(analysis(name)[0], files))
    assert sorted(actual.quality.captures) == sorted(run.quality.captures)
    actual.quality.captures = run.quality.captures
    assert actual.quality.to_dict() == run.quality.to_dict()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "sent"),
    in_turn(
        ["basics", "errors", "large", "mock", "snaplen", "tls"],
        WAYS,
        ["mock", "snaplen", "tls"],
    ),
)
def test_anomalies_match_one_process(name: str, sent: Sent, tmp_path: Path) -> None:
    files = cut(name, 7, tmp_path).files
    rows = [row for batch in Analysis(files).anomaly_batches() for row in batch]

    actual = rebuilt(a_job(sent=sent), files)

    assert counted(actual.anomalies) == counted(rows)


OF_REQUESTS = ("groups", "metadata")
IN_A_ROW = ("basics", "cluster", "groups", "large", "sasl", "tls", "waits")


def joined(
    lines: Iterable[dict[str, Any]], ids: Iterable[int], rows: Iterable[object]
) -> Counter[str]:
    """Count lines, each joined with the row of its request instead of the request id."""
    requests = dict(zip(ids, rows, strict=True))
    return Counter(
        repr((requests[line["request_id"]], {**line, "request_id": None})) for line in lines
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "way"),
    in_turn(["cluster", "fault-stale-leader", "groups", "next-groups"], FILES_AND_WAYS[1:]),
)
def test_other_tables_match_one_process(name: str, way: tuple[int, Sent], tmp_path: Path) -> None:
    count, sent = way
    files = cut(name, count, tmp_path).files
    rows: list[Row] = []
    expected: dict[str, list[dict[str, Any]]] = {}
    for batch in Analysis(files).table_rows(OF_REQUESTS):
        rows += [row for block in batch.requests for row in block.rows()]
        for table, block in batch.blocks():
            lines = BatchMaker(TABLES[table].columns).of_block(block).to_pylist()
            expected.setdefault(table, []).extend(lines)

    actual = rebuilt(a_job(BUCKETS[count], sent=sent), files)

    assert len(set(actual.request_ids)) == len(actual.rows)
    for table in OF_REQUESTS:
        from_one_process = joined(expected.get(table, ()), range(1, len(rows) + 1), rows)
        assert (
            joined(actual.tables.get(table, ()), actual.request_ids, actual.rows)
            == from_one_process
        )
    assert Counter(map(repr, actual.tables["connections"])) == Counter(
        map(repr, expected["connections"])
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "ways"),
    in_turn(
        IN_A_ROW,
        [
            ("read again", "written", "written"),
            ("written", "read again", "read again"),
            ("written", "written", "written"),
        ],
        ("groups", "sasl", "tls"),
    ),
)
def test_three_jobs_in_a_row_give_the_rows_of_one(
    name: str, ways: tuple[Sent, Sent, Sent], tmp_path: Path
) -> None:
    """Each job may send segments to buckets in another way."""
    files = cut(name, 7, tmp_path).files
    whole = rebuilt(a_job(), files)

    first = rebuilt(a_job(keeps_open=True, sent=ways[0]), files[:2])
    second = rebuilt(
        a_job(keeps_open=True, run=1, sent=ways[1]),
        files[2:5],
        states=first.states,
        names=first.names,
    )
    third = rebuilt(a_job(run=2, sent=ways[2]), files[5:], states=second.states, names=second.names)

    jobs = (first, second, third)
    rows = [row for job in jobs for row in job.rows]
    assert counted(rows) == counted(whole.rows)
    ids = [number for job in jobs for number in job.request_ids]
    assert len(set(ids)) == len(ids)
    for table in OF_REQUESTS:
        lines = [line for job in jobs for line in job.tables.get(table, ())]
        from_one_job = joined(whole.tables.get(table, ()), whole.request_ids, whole.rows)
        assert joined(lines, ids, rows) == from_one_job
    ended = [line for job in jobs for line in job.tables.get("connections", ())]
    assert Counter(map(repr, ended)) == Counter(map(repr, whole.tables["connections"]))
    quality = first.quality
    quality.merge(second.quality)
    quality.merge(third.quality)
    assert quality.to_dict() == whole.quality.to_dict()


def assert_two_jobs_give_the_rows_of_one(
    name: str, places: Iterable[int], sent: Sent, folder: Path
) -> None:
    """Two jobs over a capture that is cut at a packet give the rows of one process."""
    (file,) = cut(name, 1, folder).files
    packets = packets_of(Path(file))
    files = [str(folder / "first"), str(folder / "second")]
    job = a_job(2, keeps_open=True, sent=sent)
    for place in places:
        write_pcap(Path(files[0]), packets[:place])
        write_pcap(Path(files[1]), packets[place:])
        first = rebuilt(job, files[:1])
        last = job._replace(run=1, keeps_open=False)
        second = rebuilt(last, files[1:], states=first.states, names=first.names)
        assert counted([*first.rows, *second.rows]) == counted(read(files)[0]), place


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "sent"), in_turn(("cluster", "groups", "sasl", "transactions"), WAYS)
)
def test_two_jobs_give_the_rows_of_one(name: str, sent: Sent, tmp_path: Path) -> None:
    assert_two_jobs_give_the_rows_of_one(name, range(7, 200, 80), sent, tmp_path)


@EACH_WAY
def test_two_jobs_give_the_rows_of_one_behind_proxies(sent: Sent, tmp_path: Path) -> None:
    """Also if the first job ends within what a proxy puts before the protocol."""
    whole = tmp_path / "whole.pcap"
    whole.write_bytes(proxied.behind("waits", proxied.PREFIXES["SOCKS5, password"]))
    packets = packets_of(whole)
    files = [str(tmp_path / "first"), str(tmp_path / "second")]
    job = a_job(2, keeps_open=True, sent=sent)
    for place in (4, 5, 7, 9, 10, len(packets) // 2):
        write_pcap(Path(files[0]), packets[:place])
        write_pcap(Path(files[1]), packets[place:])
        first = rebuilt(job, files[:1])
        last = job._replace(run=1, keeps_open=False)
        second = rebuilt(last, files[1:], states=first.states, names=first.names)
        rows = [*first.rows, *second.rows]
        assert counted(rows) == counted(read(files)[0]), place
        assert {row.proxy for row in rows} == {"socks5"}


@pytest.mark.long
@EACH_WAY
@pytest.mark.parametrize("name", ["basics", "mock", "next-groups", "transactions", "waits"])
def test_two_jobs_give_the_rows_of_one_when_cut_at_any_packet(
    name: str, sent: Sent, tmp_path: Path
) -> None:
    assert_two_jobs_give_the_rows_of_one(name, range(1, 300), sent, tmp_path)


def test_open_connections_are_reported_as_far_as_they_were_read(tmp_path: Path) -> None:
    files = cut("groups", 7, tmp_path).files

    first = rebuilt(a_job(keeps_open=True), files[:4])

    alone = rebuilt(a_job(), files[:4]).tables["connections"]
    ended, still_open = first.tables.get("connections", []), first.tables[OPEN_CONNECTIONS]
    assert {line["end"] for line in still_open} == {"open"}
    assert Counter(map(repr, [*ended, *still_open])) == Counter(map(repr, alone))


@pytest.mark.few(1)
@EACH_WAY
def test_a_large_file_may_be_read_in_parts(sent: Sent, tmp_path: Path) -> None:
    (file,) = cut("large", 1, tmp_path).files
    whole = rebuilt(a_job(), [file])

    parts = rebuilt(a_job(sent=sent), [file], parts=5)

    assert counted(parts.rows) == counted(whole.rows)
    assert parts.quality.to_dict() == whole.quality.to_dict()


def test_record_data_is_not_sent(tmp_path: Path) -> None:
    (file,) = cut("large", 1, tmp_path).files

    def sent_bytes(*, prunes_payload: bool) -> int:
        folder = tmp_path / f"pruned {prunes_payload}"
        read_all(a_job(prunes_payload=prunes_payload, sent="written", folder=folder), [file])
        return sum(one.stat().st_size for one in folder.iterdir())

    assert sent_bytes(prunes_payload=True) < 0.6 * sent_bytes(prunes_payload=False)


@EACH_WAY
def test_a_file_that_is_no_capture_is_left_out(sent: Sent, tmp_path: Path) -> None:
    files = cut("waits", 2, tmp_path).files
    rows, _ = read(files)
    foreign = tmp_path / "notes.pcap"
    foreign.write_text("no packets here")

    actual = rebuilt(a_job(sent=sent), [*files, str(foreign)])

    assert counted(actual.rows) == counted(rows)
    (left_out,) = [row for row in actual.anomalies if row.kind == "capture_unreadable"]
    assert left_out.capture == str(foreign)
    assert left_out.detail.startswith(f"{foreign}: is not a pcap or pcapng file")
    assert actual.quality.anomalies[AnomalyKind.CAPTURE_UNREADABLE].count == 1


@pytest.mark.few(1)
@EACH_WAY
def test_a_truncated_file_is_read_to_its_end(sent: Sent, tmp_path: Path) -> None:
    files = cut("waits", 3, tmp_path).files
    broken = tmp_path / files[1]
    broken.write_bytes(broken.read_bytes()[:-7])
    rows, _ = read(files)

    actual = rebuilt(a_job(sent=sent), files)

    assert counted(actual.rows) == counted(rows)
    (truncated,) = [row for row in actual.anomalies if row.kind == "capture_truncated"]
    assert files[1] in truncated.detail


@pytest.mark.few(2)
@EACH_WAY
@pytest.mark.parametrize("label", ["two capture points", "five capture points"])
def test_overlapping_captures_give_the_rows_of_one_process(
    label: str, sent: Sent, tmp_path: Path
) -> None:
    write(altered("groups", label), tmp_path, "groups")
    files = [str(file) for file in tmp_path.iterdir()]
    rows, _ = read(files)

    assert counted(rebuilt(a_job(sent=sent), files).rows) == counted(rows)


def test_packets_appended_between_the_two_reads_are_ignored(tmp_path: Path) -> None:
    files = cut("waits", 3, tmp_path).files
    rows, _ = read(files)
    job = a_job(1, sent="read again")
    _, reports = read_all(job, files)
    captures = ReadSummary(reports, job.buckets).captures
    (more,) = cut("basics", 1, tmp_path).files
    with Path(files[-1]).open("ab") as last:
        last.write(Path(more).read_bytes()[PCAP_HEADER_BYTES:])

    rebuilt_rows = [
        row
        for told in rebuild_buckets(job, captures, {}, [(0, None)])
        if told.kind == "requests"
        for sent in from_arrow_stream(told.data)
        for row in rows_of(sent)
    ]

    assert counted(rebuilt_rows) == counted(rows)


def test_a_capture_that_shrank_between_the_two_reads_is_an_error(tmp_path: Path) -> None:
    files = cut("waits", 3, tmp_path).files
    job = a_job(1, sent="read again")
    _, reports = read_all(job, files)
    captures = ReadSummary(reports, job.buckets).captures
    first = Path(files[0])
    first.write_bytes(first.read_bytes()[:-1])

    with pytest.raises(CaptureError, match="changed while it was read: run again"):
        list(rebuild_buckets(job, captures, {}, [(0, None)]))


LABELS = [label for label, step in TRANSFORMATIONS.items() if step.stage is not Stage.FILES]


MORE = ["seven files", "two capture points"]
SOME = LABELS[::16]
OTHERS = [label for label in LABELS if label not in SOME]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("label", "more"),
    [
        *in_turn(SOME, MORE),
        *(pytest.param(*case, marks=pytest.mark.long) for case in product(OTHERS, MORE)),
    ],
)
def test_captures_in_disorder_over_several_files_match_one_process(
    label: str, more: str, tmp_path: Path
) -> None:
    name = random.Random(label).choice(["groups", "old-1-1-1", "waits"])
    write(altered(name, label, more), tmp_path, name)
    files = [str(file) for file in tmp_path.iterdir()]
    rows, _ = read(files)

    sent = WAYS[len(label) % len(WAYS)]
    assert counted(rebuilt(a_job(3, sent=sent), files).rows) == counted(rows)
