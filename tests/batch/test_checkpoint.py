from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.checkpoint import Checkpoint, CheckpointFolder
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.errors import UsageError
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import analysis

if TYPE_CHECKING:
    from pathlib import Path


def checkpoint(run: int = 1) -> Checkpoint:
    _, quality = analysis("mock")
    open_quality = CaptureQuality()
    open_quality.kafka_connections = 2
    return Checkpoint(
        run=run,
        archive="x",
        buckets=5,
        is_finished=False,
        options={"ports": [9092], "filters": {}},
        read={"/a.pcap": 10, "/\udcff.pcap": None},
        names={bytes(range(16)): "orders"},
        quality=quality,
        open_quality=open_quality,
    )


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(SharedFolder(str(tmp_path / "state")))


def test_a_checkpoint_is_read_back_unchanged(folder, tmp_path):
    original = checkpoint()

    def write_states(url: str) -> None:
        assert url == f"file:{tmp_path}/state/run-000001/states" == folder.states_url(1)
        states = tmp_path / "state" / "run-000001" / "states"
        states.mkdir(parents=True)
        (states / "part.parquet").write_bytes(b"states")

    folder.write(original, write_states)
    loaded = folder.read(1, "x")
    for name in ("run", "archive", "buckets", "is_finished", "options", "read", "names"):
        assert getattr(loaded, name) == getattr(original, name)
    assert loaded.whole_quality.to_dict() == original.whole_quality.to_dict()
    assert loaded.whole_quality.kafka_connections == (
        original.quality.kafka_connections + original.open_quality.kafka_connections
    )
    (tmp_path / "state" / "run-000001" / "states" / "more.parquet").write_bytes(b"")
    with pytest.raises(UsageError, match="run-000001/states is damaged"):
        folder.read(1, "x")


def test_adding_up_quality_changes_no_checkpoint():
    original = checkpoint()
    assert original.whole_quality.to_dict() == original.whole_quality.to_dict()


def test_only_the_checkpoint_of_one_run_is_kept(folder, tmp_path):
    for run in (1, 2, 3):
        folder.write(checkpoint(run), None)
    (tmp_path / "state" / "run-of-mine").mkdir()
    (tmp_path / "state" / "run-of-mine" / "notes").write_text("x")
    folder.own("x", "file:/out")
    folder.keep_only(2)
    names = {entry.name for entry in (tmp_path / "state").iterdir()}
    assert {"run-000002", "run-of-mine", "archive.json"} <= names
    assert not names & {"run-000001", "run-000003"}
    assert folder.read(2, "x").run == 2
    assert folder.owner() == ("x", "file:/out")


def test_a_new_folder_has_no_owner(folder):
    assert folder.owner() is None


def test_a_damaged_checkpoint_is_reported_in_one_line(folder, tmp_path):
    folder.write(checkpoint(), None)
    file = tmp_path / "state" / "run-000001" / "checkpoint"
    whole = file.read_bytes()
    noise = random.Random(2)
    for _ in range(10):
        at = noise.randrange(len(whole))
        cut, changed = whole[:at], bytearray(whole)
        changed[at] ^= 1 << noise.randrange(8)
        for damaged in (cut, bytes(changed)):
            file.write_bytes(damaged)
            with pytest.raises(UsageError, match=r"run-000001/checkpoint is damaged; --replace"):
                folder.read(1, "x")
    file.write_bytes(whole)
    assert folder.read(1, "x").run == 1
    with pytest.raises(UsageError, match="is damaged"):
        folder.read(1, "another archive's")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"archive": "x"}', b"[" * 100_000])
def test_a_damaged_owner_file_is_reported_in_one_line(text, folder, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "archive.json").write_bytes(text)
    with pytest.raises(
        UsageError, match=r"archive.json is damaged: the archive of this checkpoint is unknown"
    ):
        folder.owner()


def test_states_are_readable_by_their_owner_alone(folder, tmp_path):
    """While they are written, too: by what the engine writes with, which asks for nothing."""
    before = os.umask(0)
    try:
        run = tmp_path / "state" / "run-000001"

        def write_states(url: str) -> None:
            assert url.startswith("file:")
            states = run / "states"
            states.mkdir()
            (states / "part.parquet").write_bytes(b"plaintext")
            assert run.stat().st_mode & 0o077 == 0

        for _ in range(2):  # the second one replaces the first
            folder.write(checkpoint(), write_states)
            modes = {path.name: path.stat().st_mode & 0o777 for path in run.rglob("*")}
            assert modes == {"states": 0o700, "part.parquet": 0o600, "checkpoint": 0o600}
            assert run.stat().st_mode & 0o777 == 0o700
        assert folder.read(1, "x").run == 1
    finally:
        os.umask(before)
