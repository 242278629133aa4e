"""Files of key logs: missing, growing, truncated, replaced, huge, or not a key log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kanalyze.errors import UsageError
from kanalyze.live import key_log_files
from kanalyze.live.key_log_files import LOOK_EVERY_NS, KeyLogFiles
from kanalyze.tls import keylog
from kanalyze.tls.keylog import SecretKind

SECOND_NS = 1_000_000_000


def line(number: int, *, secret: str = "ab" * 48) -> str:
    return f"CLIENT_RANDOM {number:064x} {secret}\n"


class WatchedFiles:
    """Key logs that a test checks repeatedly."""

    def __init__(self, *paths: object) -> None:
        self.messages: list[str] = []
        self.files = KeyLogFiles([str(path) for path in paths], self.messages.append)
        self._clock_ns = 0

    def look(self, after_ns: int = LOOK_EVERY_NS) -> bool:
        self._clock_ns += after_ns
        return self.files.tick(self._clock_ns)

    def sessions(self) -> set[int]:
        randoms = self.files.log.randoms(SecretKind.MASTER)
        return {int.from_bytes(random, "big") for random in randoms}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "client.keys"


def add(path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_present_lines_are_read_at_once_and_added_lines_at_the_next_check(path):
    add(path, line(1))
    watched = WatchedFiles(path)
    assert watched.sessions() == {1}
    assert not watched.look()
    add(path, line(2) + line(3))
    assert not watched.look(LOOK_EVERY_NS // 2)
    assert watched.look(LOOK_EVERY_NS // 2)
    assert watched.sessions() == {1, 2, 3}
    assert watched.messages == []


def test_a_file_may_be_created_later(path):
    watched = WatchedFiles(path)
    (message,) = watched.messages
    assert message == f"{path}: does not exist yet; it is read as soon as it does"
    assert not watched.look()
    add(path, line(1))
    assert watched.look()
    assert watched.sessions() == {1}
    assert len(watched.messages) == 1


def test_a_line_may_be_written_in_pieces(path):
    watched = WatchedFiles(path)
    text = line(1) + line(2)
    for start in range(0, len(text), 50):
        add(path, text[start : start + 50])
        watched.look()
    assert watched.sessions() == {1, 2}
    assert watched.files.log.wrong_lines == 0


def test_an_unfinished_line_counts_after_three_seconds(path):
    watched = WatchedFiles(path)
    add(path, line(1).rstrip())
    watched.look()
    watched.look()
    assert watched.sessions() == set()
    watched.look(3 * SECOND_NS)
    assert watched.sessions() == {1}
    # Later bytes make it another line.
    add(path, "00\n" + line(2))
    watched.look()
    assert watched.sessions() == {1, 2}


def test_a_truncated_or_removed_file_is_read_from_its_beginning(path):
    add(path, line(1))
    watched = WatchedFiles(path)
    path.write_text(line(2) + line(3) + line(4))
    watched.look()
    path.write_text(line(5))
    assert watched.look()
    assert watched.sessions() == {1, 2, 3, 4, 5}
    path.unlink()
    assert not watched.look()
    add(path, line(6) + line(7).rstrip())
    watched.look()
    watched.files.end()  # a line without its end counts at the end
    assert watched.sessions() == set(range(1, 8))
    assert watched.messages == []


def test_a_replaced_file_is_read_to_its_end_before_the_new_file(path):
    add(path, line(1))
    watched = WatchedFiles(path)
    add(path, line(2) + line(3).rstrip())
    path.rename(path.with_suffix(".1"))
    watched.look()
    assert watched.sessions() == {1, 2}
    add(path, line(4))
    watched.look()
    assert watched.sessions() == {1, 2, 3, 4}
    add(path, line(5))
    watched.look()
    assert 5 in watched.sessions()


def test_only_the_end_of_a_huge_file_is_read(path, monkeypatch):
    monkeypatch.setattr(key_log_files, "MAX_BYTES_BEFORE", 1 << 20)
    count = 20_000
    add(path, "".join(map(line, range(count))))
    watched = WatchedFiles(path)
    length = len(line(0))
    count_read = (1 << 20) // length
    assert watched.sessions() == set(range(count - count_read, count))
    assert watched.messages == [f"{path}: only the last 1 MiB are read"]
    assert watched.files.log.wrong_lines == 0
    add(path, line(count))
    watched.look()
    assert count in watched.sessions()


def test_a_check_reads_no_more_than_its_limit(path, monkeypatch):
    monkeypatch.setattr(key_log_files, "MAX_BYTES_A_LOOK", 1000)
    watched = WatchedFiles(path)
    add(path, "".join(map(line, range(100))))
    looks = 0
    while len(watched.sessions()) < 100:
        before = len(watched.sessions())
        assert watched.look()
        assert len(watched.sessions()) - before <= 1000 // len(line(0)) + 1
        looks += 1
    assert looks >= 100 * len(line(0)) // 1000


def test_only_added_bytes_are_read(path, monkeypatch):
    add(path, "".join(map(line, range(1000))))
    watched = WatchedFiles(path)
    counts: list[int] = []
    read = os.pread

    def counted(descriptor: int, size: int, at: int) -> bytes:
        data = read(descriptor, size, at)
        counts.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    for _ in range(10):
        watched.look()
    assert counts == []
    add(path, line(1000))
    watched.look()
    assert sum(counts) < 4 * len(line(0))


def test_a_pipe_is_read_while_it_is_written(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    watched = WatchedFiles(path)
    assert not watched.look()
    with path.open("w") as pipe:
        pipe.write(line(1))
        pipe.flush()
        assert watched.look()
        assert not watched.look()
    assert watched.sessions() == {1}


def test_lines_of_several_files_are_not_mixed(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    watched = WatchedFiles(one, other)
    texts = line(1), line(2)
    for start in range(0, len(texts[0]), 30):
        for path, text in zip((one, other), texts, strict=True):
            add(path, text[start : start + 30])
        watched.look()
    assert watched.sessions() == {1, 2}


def test_an_endless_line_takes_little_memory(path):
    watched = WatchedFiles(path)
    for _ in range(20):
        add(path, "x" * 10_000)
        watched.look()
    (file,) = watched.files._files
    assert len(file._last_line) < 2000
    add(path, "\n" + line(1))
    watched.look()
    assert watched.sessions() == {1}


@pytest.mark.parametrize("content", ["hello\nworld\n", "\0" * 5000 + "\n"])
def test_a_file_without_secrets_is_refused_at_the_start_and_reported_later(content, path):
    watched = WatchedFiles(path)
    add(path, content)
    watched.look()
    watched.look()
    assert watched.messages[1:] == [f"{path}: no line has a TLS secret"]
    with pytest.raises(UsageError, match="not a TLS key log"):
        WatchedFiles(path)


def test_paths_that_cannot_be_read_are_refused(tmp_path, path, monkeypatch):
    for wrong, message in ((tmp_path, "directory"), ("a\0b", "not a path")):
        with pytest.raises(UsageError, match=message):
            WatchedFiles(wrong)
    monkeypatch.setattr(keylog, "are_ciphers_installed", lambda: False)
    with pytest.raises(UsageError, match="tls"):
        WatchedFiles(path)


def test_a_file_that_becomes_unreadable_is_reported_once(path):
    add(path, line(1))
    watched = WatchedFiles(path)
    path.unlink()
    path.mkdir()
    for _ in range(3):
        watched.look()
    assert watched.messages == [f"{path}: Is a directory"]
    path.rmdir()
    add(path, line(2))
    watched.look()
    assert watched.sessions() == {1, 2}


def test_files_are_closed(path):
    add(path, line(1))
    opened = Path("/proc/self/fd")
    before = set(opened.iterdir())
    watched = WatchedFiles(path)
    watched.files.close()
    assert set(opened.iterdir()) == before
