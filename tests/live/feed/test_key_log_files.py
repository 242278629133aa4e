"""Key logs in all states: missing, growing, truncated, replaced, huge, or not a key log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kanalyze.errors import UsageError
from kanalyze.live.feed import key_log_files
from kanalyze.live.feed.key_log_files import LOOK_EVERY_NS, KeyLogFiles
from kanalyze.tls import installed
from kanalyze.tls.keylog import SecretKind

SECOND_NS = 1_000_000_000


def line(number: int, *, secret: str = "ab" * 48) -> str:
    return f"CLIENT_RANDOM {number:064x} {secret}\n"


class Watched:
    """Key logs that a test checks again and again."""

    def __init__(self, *paths: object) -> None:
        self.told: list[str] = []
        self.files = KeyLogFiles([str(path) for path in paths], self.told.append)
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
    watched = Watched(path)
    assert watched.sessions() == {1}
    assert not watched.look()
    add(path, line(2) + line(3))
    assert not watched.look(LOOK_EVERY_NS // 2)
    assert watched.look(LOOK_EVERY_NS // 2)
    assert watched.sessions() == {1, 2, 3}
    assert watched.told == []


def test_a_file_may_be_created_later(path):
    watched = Watched(path)
    (told,) = watched.told
    assert told == f"{path}: does not exist yet; it is read as soon as it does"
    assert not watched.look()
    add(path, line(1))
    assert watched.look()
    assert watched.sessions() == {1}
    assert len(watched.told) == 1


def test_the_end_of_a_line_may_come_later(path):
    watched = Watched(path)
    text = line(1) + line(2)
    for place in range(0, len(text), 50):
        add(path, text[place : place + 50])
        watched.look()
    assert watched.sessions() == {1, 2}
    assert watched.files.log.wrong_lines == 0


def test_a_last_line_without_an_end_counts_when_nothing_follows_for_a_while(path):
    watched = Watched(path)
    add(path, line(1).rstrip())
    watched.look()
    watched.look()
    assert watched.sessions() == set()
    watched.look(3 * SECOND_NS)
    assert watched.sessions() == {1}
    # The bytes that follow later make it another line.
    add(path, "00\n" + line(2))
    watched.look()
    assert watched.sessions() == {1, 2}


def test_a_last_line_without_an_end_counts_at_the_end(path):
    watched = Watched(path)
    add(path, line(1) + line(2).rstrip())
    watched.files.end()
    assert watched.sessions() == {1, 2}


def test_a_file_that_is_truncated_is_read_from_its_beginning(path):
    add(path, line(1) + line(2))
    watched = Watched(path)
    path.write_text(line(3))
    assert watched.look()
    assert watched.sessions() == {1, 2, 3}


def test_a_file_that_is_truncated_and_longer_than_before_is_read_from_its_beginning(path):
    add(path, line(1))
    watched = Watched(path)
    path.write_text(line(2) + line(3) + line(4))
    watched.look()
    assert watched.sessions() == {1, 2, 3, 4}


def test_a_file_that_is_replaced_is_read_to_its_end_and_then_the_other(path):
    add(path, line(1))
    watched = Watched(path)
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


def test_a_file_that_is_removed_may_come_again(path):
    add(path, line(1))
    watched = Watched(path)
    path.unlink()
    assert not watched.look()
    add(path, line(2))
    watched.look()
    assert watched.sessions() == {1, 2}
    assert watched.told == []


def test_of_a_huge_file_the_end_is_read(path, monkeypatch):
    monkeypatch.setattr(key_log_files, "MOST_BYTES_BEFORE", 1 << 20)
    count = 20_000
    add(path, "".join(map(line, range(count))))
    watched = Watched(path)
    length = len(line(0))
    kept = (1 << 20) // length
    assert watched.sessions() == set(range(count - kept, count))
    assert watched.told == [f"{path}: only the last 1 MiB are read"]
    assert watched.files.log.wrong_lines == 0
    add(path, line(count))
    watched.look()
    assert count in watched.sessions()


def test_a_check_reads_no_more_than_its_limit(path, monkeypatch):
    monkeypatch.setattr(key_log_files, "MOST_BYTES_A_LOOK", 1000)
    watched = Watched(path)
    add(path, "".join(map(line, range(100))))
    looks = 0
    while len(watched.sessions()) < 100:
        before = len(watched.sessions())
        assert watched.look()
        assert len(watched.sessions()) - before <= 1000 // len(line(0)) + 1
        looks += 1
    assert looks >= 100 * len(line(0)) // 1000


def test_only_what_was_added_is_read(path, monkeypatch):
    add(path, "".join(map(line, range(1000))))
    watched = Watched(path)
    counts: list[int] = []
    read = os.pread

    def counted(descriptor: int, size: int, at: int) -> bytes:
        found = read(descriptor, size, at)
        counts.append(len(found))
        return found

    monkeypatch.setattr(os, "pread", counted)
    for _ in range(10):
        watched.look()
    assert counts == []
    add(path, line(1000))
    watched.look()
    assert sum(counts) < 4 * len(line(0))


def test_a_pipe_is_read_as_it_comes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    watched = Watched(path)
    assert not watched.look()
    with path.open("w") as pipe:
        pipe.write(line(1))
        pipe.flush()
        assert watched.look()
        assert not watched.look()
    assert watched.sessions() == {1}


def test_lines_of_several_files_are_not_mixed(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    watched = Watched(one, other)
    texts = line(1), line(2)
    for place in range(0, len(texts[0]), 30):
        for path, text in zip((one, other), texts, strict=True):
            add(path, text[place : place + 30])
        watched.look()
    assert watched.sessions() == {1, 2}


def test_a_line_without_end_takes_no_memory(path):
    watched = Watched(path)
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
    watched = Watched(path)
    add(path, content)
    watched.look()
    watched.look()
    assert watched.told[1:] == [f"{path}: no line has a TLS secret"]
    with pytest.raises(UsageError, match="not a TLS key log"):
        Watched(path)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="directory"):
        Watched(tmp_path)


def test_a_path_with_a_null_byte_is_refused():
    with pytest.raises(UsageError, match="not a path"):
        Watched("a\0b")


def test_a_file_that_becomes_unreadable_is_reported_once(path):
    add(path, line(1))
    watched = Watched(path)
    path.unlink()
    path.mkdir()
    for _ in range(3):
        watched.look()
    assert watched.told == [f"{path}: Is a directory"]
    path.rmdir()
    add(path, line(2))
    watched.look()
    assert watched.sessions() == {1, 2}


def test_without_ciphers_the_error_names_the_extra_to_install(path, monkeypatch):
    monkeypatch.setattr(installed, "are_ciphers_installed", lambda: False)
    with pytest.raises(UsageError, match="tls"):
        Watched(path)


def test_files_are_closed(path):
    add(path, line(1))
    opened = Path("/proc/self/fd")
    before = set(opened.iterdir())
    watched = Watched(path)
    watched.files.close()
    assert set(opened.iterdir()) == before
