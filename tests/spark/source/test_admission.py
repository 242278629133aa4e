"""A stream admits each capture once, in order, when it is complete."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.errors import UsageError
from kanalyze.spark.source.stream import AdmittedCaptures
from tests.support import kafka as k
from tests.support.packets import START_NS, Packet, pcap_file, segment

if TYPE_CHECKING:
    from pathlib import Path

SETTLE_S = 60
SECOND_NS = 1_000_000_000


class Watched:
    """A folder that captures are written to, and the list of admitted captures."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inbox = root / "in"
        self.inbox.mkdir()
        self.now_s = 1000
        self.state = SharedFolder(str(root / "state"))
        self.admitted = self.reopened()

    def reopened(self, settle_s: float = SETTLE_S) -> AdmittedCaptures:
        """Return the list as another process would read it."""
        return AdmittedCaptures([str(self.inbox)], self.state, settle_s=settle_s)

    def write(self, name: str, data: bytes, *, at_s: int) -> None:
        path = self.inbox / name
        path.write_bytes(data)
        os.utime(path, (at_s, at_s))

    def capture(self, name: str, first_s: int | None, *, at_s: int) -> None:
        packet = segment(to_broker=True, seq=1, ack=1, payload=k.heartbeat(1))
        packets = [] if first_s is None else [Packet(packet, START_NS + first_s * SECOND_NS)]
        self.write(name, pcap_file(packets), at_s=at_s)

    def names(self, now_s: int) -> list[str]:
        """Admit what is complete at a time; return the names of all captures admitted so far."""
        self.admitted.admit(now_s * SECOND_NS)
        found = self.admitted.between(0, len(self.admitted))
        return [capture.path.rpartition("/")[2] for capture in found]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_capture_is_complete_when_a_later_one_exists(watched: Watched) -> None:
    watched.capture("b", 10, at_s=1010)
    assert watched.names(1011) == []
    watched.capture("a", 20, at_s=1012)
    assert watched.names(1012) == ["b"]
    watched.capture("c", None, at_s=1030)  # just created: no packet was written yet
    assert watched.names(1030) == ["b", "a"]


def test_a_capture_is_complete_when_it_was_not_written_to_for_a_while(watched: Watched) -> None:
    watched.capture("a", 10, at_s=1010)
    assert watched.names(1010 + SETTLE_S - 1) == []
    assert watched.names(1010 + SETTLE_S) == ["a"]


def test_a_capture_written_to_after_a_later_one_began_is_not_complete(watched: Watched) -> None:
    watched.capture("a", 10, at_s=1050)
    watched.capture("b", 20, at_s=1020)
    assert watched.names(1051) == []


def test_without_a_settle_time_every_capture_is_complete(watched: Watched) -> None:
    watched.admitted = watched.reopened(settle_s=0)
    watched.capture("a", 10, at_s=1010)
    assert watched.names(0) == ["a"]


def test_captures_are_read_in_the_order_of_their_first_packets(watched: Watched) -> None:
    for name, first_s in (("x", 30), ("y", 10), ("z", None), ("w", 20)):
        watched.capture(name, first_s, at_s=0)
    assert watched.names(1000) == ["y", "w", "x", "z"]
    assert watched.admitted.notes == []


def test_a_late_capture_is_read_late_and_noted(watched: Watched) -> None:
    watched.capture("b", 20, at_s=0)
    assert watched.names(1000) == ["b"]
    watched.capture("a", 10, at_s=0)
    watched.capture("c", 30, at_s=0)
    assert watched.names(1000) == ["b", "a", "c"]
    (note,) = watched.admitted.notes
    assert (note.kind, note.path) == ("reorder_limit", str(watched.inbox / "a"))
    assert watched.reopened().notes == [note]


def test_a_file_that_is_no_capture_is_skipped_once_it_is_complete(watched: Watched) -> None:
    watched.write("a.pcap", b"no capture", at_s=1010)
    watched.write("empty.cap", b"", at_s=1010)
    watched.capture("b", 20, at_s=0)
    assert watched.names(1011) == ["b"]
    assert watched.admitted.notes == []
    assert watched.names(1010 + SETTLE_S) == watched.names(9999) == ["b"]
    kinds = [(note.path.rpartition("/")[2], note.kind) for note in watched.admitted.notes]
    assert kinds == [("a.pcap", "capture_unreadable"), ("empty.cap", "capture_unreadable")]


def test_later_captures_do_not_change_the_admitted_ones(watched: Watched) -> None:
    for number in range(3):
        watched.capture(f"{number}", number, at_s=0)
        watched.names(1000)
    first = watched.admitted.between(0, 3)
    watched.capture("before", -100, at_s=0)
    watched.admitted = watched.reopened()
    assert watched.names(1000) == ["0", "1", "2", "before"]
    assert watched.admitted.between(0, 3) == first
    assert watched.admitted.between(1, 2) == first[1:2]


def test_a_removed_capture_is_noted_once(watched: Watched) -> None:
    for name in "abc":
        watched.capture(name, ord(name), at_s=0)
    assert watched.names(1000) == ["a", "b", "c"]
    (watched.inbox / "b").unlink()
    assert watched.names(1000) == watched.names(1000) == ["a", "c"]
    assert [note.kind for note in watched.reopened().notes] == ["capture_unreadable"]


def test_a_capture_written_to_after_admission_is_noted_once(watched: Watched) -> None:
    watched.capture("a", 1, at_s=0)
    watched.capture("b", 2, at_s=0)
    assert watched.names(1000) == ["a", "b"]
    with (watched.inbox / "a").open("ab") as file:
        file.write(bytes(16))
    assert watched.names(1000) == watched.names(1000) == ["a", "b"]
    (note,) = watched.admitted.notes
    assert (note.kind, note.path) == ("capture_truncated", str(watched.inbox / "a"))


def test_a_missing_folder_may_appear_later(tmp_path: Path) -> None:
    paths = [str(tmp_path / "later"), str(tmp_path / "*.pcap"), "nosuchscheme://host/x"]
    admitted = AdmittedCaptures(paths, SharedFolder(str(tmp_path / "state")), settle_s=0)
    admitted.admit(0)
    assert len(admitted) == 0
    (tmp_path / "one.pcap").write_bytes(pcap_file([]))
    admitted.admit(0)
    assert len(admitted) == 1


def test_a_damaged_list_is_refused(watched: Watched) -> None:
    watched.capture("a", 1, at_s=0)
    watched.names(1000)
    for line in (b"{no json\n", b'{"no": "capture"}\n', b"3\n"):
        watched.state.write("files/000000000001.jsonl", line)
        with pytest.raises(UsageError, match="damaged"):
            watched.reopened()
    watched.state.write("files/000000000001.jsonl", b"")
    watched.state.write("files/000000000007.jsonl", b"")
    with pytest.raises(UsageError, match="out of place"):
        watched.reopened()
