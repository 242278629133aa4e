from __future__ import annotations

import errno
import io
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from kanalyze.export.files import OutputFile
from kanalyze.export.open import open_writer
from tests.support.row_blocks import blocks_of
from tests.support.rows import plain_traffic
from tests.support.waiting import LONG_S

ROOT = Path(__file__).parent.parent.parent


def names(folder) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def test_a_file_appears_when_it_is_closed_and_not_before(tmp_path):
    target = tmp_path / "out.csv"
    output = OutputFile(str(target))
    output.file.write(b"whole")
    assert not target.exists()
    output.close()
    assert target.read_bytes() == b"whole"
    assert names(tmp_path) == ["out.csv"]


@pytest.mark.parametrize("given", ["out/", "./out//", "../{}/out"])
def test_a_name_may_be_spelled_in_any_way(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    with OutputFile(given.format(tmp_path.name)) as output:
        assert output.partial is not None
        assert output.partial.resolve().parent == tmp_path
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("given", ["", ".", "/", ".."])
def test_a_folder_is_no_output(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IsADirectoryError):
        OutputFile(given)
    assert names(tmp_path) == []


def test_aborting_leaves_only_the_old_file(tmp_path):
    target = tmp_path / "out.csv"
    target.write_bytes(b"old")
    output = OutputFile(str(target))
    output.file.write(b"half")
    output.abort()
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["out.csv"]


def test_closing_or_aborting_twice_does_nothing(tmp_path):
    output = OutputFile(str(tmp_path / "out"))
    output.close()
    output.close()
    output.abort()
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("name", ["out", "link"])
def test_a_new_file_has_the_permissions_that_the_umask_says(tmp_path, name):
    """Those of a file that a link leads to do not matter."""
    (tmp_path / "real").write_bytes(b"")
    (tmp_path / "real").chmod(0o777)
    (tmp_path / "link").symlink_to("real")
    before = os.umask(0o027)
    try:
        OutputFile(str(tmp_path / name)).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / name).lstat().st_mode) == 0o640


@pytest.mark.parametrize(
    "name", ["missing/out.txt", "x" * 300, "loop/out.csv", "folder", "to folder", "/dev/fd/987"]
)
def test_a_file_that_cannot_be_created_is_an_error_with_the_given_name(tmp_path, name):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to folder").symlink_to("folder")
    before = names(tmp_path)
    with pytest.raises(OSError, match=r"No such|too long|symbolic|directory|descriptor") as caught:
        OutputFile(str(tmp_path / name))
    assert caught.value.filename == str(tmp_path / name)
    assert names(tmp_path) == before
    assert (tmp_path / "to folder").is_symlink()


@pytest.mark.parametrize("target", ["real", "missing", "link", "/dev/null", "pipe"])
def test_a_link_is_replaced_and_never_followed(tmp_path, target):
    """A user who can make links in a folder must not decide which file is overwritten."""
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o600)
    os.mkfifo(tmp_path / "pipe")
    link = tmp_path / "link"  # to itself, in one case
    link.symlink_to(target)
    with OutputFile(str(link)) as output:
        output.file.write(b"new")
    assert not link.is_symlink()
    assert link.read_bytes() == b"new"
    assert (tmp_path / "real").read_bytes() == b"old"
    assert names(tmp_path) == ["link", "pipe", "real"]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "{}/link"])
def test_a_name_of_an_open_descriptor_means_that_file(tmp_path, name):
    """``/dev/stdout`` is a link too: nothing in /dev is replaced, and ``>>`` appends."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = (
        "import sys\n"
        "from kanalyze.export.files import OutputFile\n"
        "with OutputFile(sys.argv[1]) as output: output.file.write(b'new')\n"
    )
    target = tmp_path / "there"
    target.write_bytes(b"old ")
    with target.open("ab") as file:
        subprocess.run(
            [sys.executable, "-c", code, name.format(tmp_path)], stdout=file, check=True, cwd=ROOT
        )
    assert target.read_bytes() == b"old new"
    assert (tmp_path / "link").is_symlink()
    assert Path("/dev/stdout").is_symlink()


def test_a_pipe_is_written_directly(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with OutputFile(str(pipe)) as output:
        output.file.write(b"through")
    reader.join(LONG_S)
    assert read == [b"through"]
    assert names(tmp_path) == ["pipe"]


def test_unbuffered_standard_output_gets_all_bytes(tmp_path, monkeypatch):
    """An unbuffered stream may write only a part of the bytes, for example if a signal arrives."""

    class PartialWriter(io.FileIO):
        def write(self, data):
            return super().write(data[:1000])

    target = tmp_path / "out"
    # It is written by its descriptor: Python's own stream would write only a part.
    with PartialWriter(target, "wb") as raw:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=raw))
        with OutputFile("-") as output:
            output.file.write(b"x" * 100_000)
        assert target.stat().st_size == 100_000
        assert raw.write(b"still open") == 10


def test_standard_output_stays_open(capfdbinary):
    with OutputFile("-") as output:
        output.file.write(b"one")
    with OutputFile("-") as output:
        output.file.write(b"two")
    assert capfdbinary.readouterr().out == b"onetwo"


WRITE_MUCH = """
import resource, signal, sys
from kanalyze.export.files import OutputFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
output = OutputFile(sys.argv[1])
try:
    for _ in range(int(sys.argv[2])):
        output.file.write(b"x" * 700)
    output.close()
except OSError as error:
    print(error.errno, error.filename)
    output.abort()
"""


@pytest.mark.parametrize("times", [2, 200])  # the error comes on close, or before
@pytest.mark.parametrize(
    ("name", "number"), [("out.csv", errno.EFBIG), ("/dev/full", errno.ENOSPC)]
)
def test_a_failed_write_is_an_error_with_the_given_name(tmp_path, name, number, times):
    done = subprocess.run(
        [sys.executable, "-c", WRITE_MUCH, name, str(times)],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert done.stdout == f"{number} {name}\n"
    assert names(tmp_path) == []


def test_an_exception_in_the_block_removes_the_file(tmp_path):
    def fail():
        with open_writer(str(tmp_path / "out.csv")):
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_block_is_written_like_its_rows(tmp_path):
    traffic = plain_traffic(40)
    for name in ("rows.csv", "blocks.csv", "rows.jsonl", "blocks.jsonl"):
        with open_writer(str(tmp_path / name)) as writer:
            if name.startswith("rows"):
                writer.write(traffic)
            else:
                for block in blocks_of(traffic, Random(1)):
                    writer.write_block(block)
    for ending in ("csv", "jsonl"):
        plain = (tmp_path / f"rows.{ending}").read_bytes()
        assert plain
        assert (tmp_path / f"blocks.{ending}").read_bytes() == plain
