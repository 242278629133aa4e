from __future__ import annotations

import contextlib
import functools
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from kanalyze.batch.checkpoint import _LOAD_ERRORS, Checkpoint, CheckpointFolder, _first_line
from kanalyze.batch.history import ALL_CONNECTIONS, Stretch
from kanalyze.batch.shared_folder import FileEntry, SharedFolder
from kanalyze.errors import UsageError
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import analysis
from tests.support.cases import for_each

NAMES = ("codecs", "errors", "groups", "old-0-8-2-2", "tls")


@functools.cache
def text(name: str) -> str:
    """The quality of a capture as JSON."""
    return json.dumps(analysis(name)[1].to_values())


@pytest.mark.parametrize("name", NAMES)
def test_quality_is_loaded_unchanged(name: str) -> None:
    quality = analysis(name)[1]
    loaded = CaptureQuality.from_values(json.loads(text(name)))
    assert loaded.to_dict() == quality.to_dict()
    assert loaded.extent() == quality.extent()
    assert vars(loaded).keys() == vars(quality).keys()


def test_the_pairs_that_earlier_versions_saved_are_loaded() -> None:
    plain = {
        name: [list(pair) for pair in value.items()] if isinstance(value, dict) else value
        for name, value in json.loads(text("groups")).items()
    }
    loaded = CaptureQuality.from_values({**plain, "lost_bytes": 0, "snapped_bytes": 0})
    assert loaded.to_dict() == analysis("groups")[1].to_dict()


def test_names_of_undecodable_bytes_are_kept() -> None:
    quality = CaptureQuality(["\udcff.pcap"])
    loaded = CaptureQuality.from_values(json.loads(json.dumps(quality.to_values())))
    assert loaded.captures == quality.captures


@pytest.mark.parametrize("name", sorted(vars(CaptureQuality())))
def test_quality_of_a_checkpoint_without_a_newer_counter_is_loaded(name: str) -> None:
    quality = analysis("tls")[1]
    plain = json.loads(text("tls"))
    del plain[name]
    loaded = CaptureQuality.from_values(plain)
    unset = vars(CaptureQuality())[name]
    assert vars(loaded)[name] == unset
    vars(loaded)[name] = vars(quality)[name]
    assert loaded.to_dict() == quality.to_dict()


def changed(plain: Any, noise: random.Random) -> Any:
    """Return plain values, one of which is replaced by another, often of another type."""
    if isinstance(plain, dict) and plain and noise.random() < 0.9:
        name = noise.choice(list(plain))
        return {**plain, name: changed(plain[name], noise)}
    if isinstance(plain, list) and plain and noise.random() < 0.9:
        at = noise.randrange(len(plain))
        return [*plain[:at], changed(plain[at], noise), *plain[at + 1 :]]
    return noise.choice([None, "x", -1, 1 << 70, 1.5, [], {}, [[]], ["x", "x"], True])


@for_each("seed", range(300))
def test_damaged_quality_is_refused_or_loaded(seed: int) -> None:
    plain = changed(json.loads(text("codecs")), random.Random(seed))
    with contextlib.suppress(*_LOAD_ERRORS):
        assert json.dumps(CaptureQuality.from_values(plain).to_dict())


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
        history=[Stretch(None, 1, 2, 3, {}), Stretch(1, 2, 5, 8, {"/a.pcap": 2})],
    )


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(SharedFolder(str(tmp_path / "state")))


def test_a_checkpoint_is_read_back_unchanged(folder, tmp_path):
    original = checkpoint()
    states = tmp_path / "state" / "run-000001" / "states"
    assert folder.begin(1) == str(states)
    states.mkdir(parents=True)
    (states / "part.parquet").write_bytes(b"states")
    (states / "of-a-task-that-failed.parquet").write_bytes(b"sta")
    folder.write(original, [FileEntry("part.parquet", 6)])
    loaded = folder.read(1, "x")
    assert loaded.states == [("run-000001/states/part.parquet", 6)]
    names = ("run", "archive", "buckets", "is_finished", "options", "read", "names", "history")
    for name in names:
        assert getattr(loaded, name) == getattr(original, name)
    assert loaded.whole_quality.to_dict() == original.whole_quality.to_dict()
    assert loaded.whole_quality.kafka_connections == (
        original.quality.kafka_connections + original.open_quality.kafka_connections
    )
    (states / "part.parquet").write_bytes(b"state")
    with pytest.raises(UsageError, match="run-000001/states is damaged"):
        folder.read(1, "x")


def test_an_older_checkpoint_may_have_read_any_connection(folder, tmp_path):
    folder.write(checkpoint(), [])
    file = tmp_path / "state" / "run-000001" / "checkpoint"
    plain = json.loads(file.read_bytes().partition(b"\n")[2])
    del plain["history"]
    text = json.dumps(plain).encode()
    file.write_bytes(_first_line(text) + b"\n" + text)
    (stretch,) = folder.read(1, "x").history
    quality = analysis("mock")[1]
    assert stretch[:4] == (None, quality.first_time_ns, quality.last_time_ns, ALL_CONNECTIONS)


def test_adding_up_quality_changes_no_checkpoint():
    original = checkpoint()
    assert original.whole_quality.to_dict() == original.whole_quality.to_dict()


def test_only_checkpoints_that_a_run_may_go_back_to_are_kept(folder, tmp_path):
    assert folder.owner() is None
    for run in (1, 2, 3, 4):
        folder.write(checkpoint(run), [])
    (tmp_path / "state" / "run-of-mine").mkdir()
    (tmp_path / "state" / "run-of-mine" / "notes").write_text("x")
    folder.own("x", "file:/out")
    folder.keep_only(checkpoint(3))
    names = {entry.name for entry in (tmp_path / "state").iterdir()}
    assert {"run-000001", "run-000003", "run-of-mine", "archive.json"} <= names
    assert not names & {"run-000002", "run-000004"}
    assert folder.read(3, "x").run == 3
    assert folder.owner() == ("x", "file:/out")


def test_a_damaged_checkpoint_is_reported_in_one_line(folder, tmp_path):
    folder.write(checkpoint(), [])
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

        for _ in range(2):  # the second one replaces the first
            states = Path(folder.begin(1))
            states.mkdir()
            (states / "part.parquet").write_bytes(b"plaintext")
            assert run.stat().st_mode & 0o077 == 0
            folder.write(checkpoint(), [FileEntry("part.parquet", 9)])
            modes = {path.name: path.stat().st_mode & 0o777 for path in run.rglob("*")}
            assert modes == {"states": 0o700, "part.parquet": 0o600, "checkpoint": 0o600}
            assert run.stat().st_mode & 0o777 == 0o700
        assert folder.read(1, "x").run == 1
    finally:
        os.umask(before)
