"""Key logs are found in the same places as captures, and tasks read them."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.key_sources import (
    KeySources,
    find_key_files,
    read_keys,
    shared_keys,
    with_captures,
)
from kanalyze.batch.table_options import make_plan, option_texts
from kanalyze.errors import KanalyzeError
from kanalyze.tls import keylog
from tests.support import tls_captures

if TYPE_CHECKING:
    from pathlib import Path

ONE, OTHER = "tls12-aes128gcm", "tls13-sasl"


def folder_with(tmp_path: Path, *names: str) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.keys").write_bytes(tls_captures.keylog(name).read_bytes())
    return folder


def count(sources: KeySources | None) -> int:
    assert sources is not None
    log = read_keys(sources)
    assert log is not None
    return len(log)


def test_a_folder_a_glob_a_url_and_a_list_of_files_find_the_same_key_logs(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, ONE, OTHER)
    (folder / "capture.pcap").write_bytes(tls_captures.path(ONE).read_bytes())
    (folder / ".hidden.keys").write_bytes(tls_captures.keylog("tls13-lost").read_bytes())
    files = [str(folder / f"{name}.keys") for name in (ONE, OTHER)]
    expected = find_key_files(files)
    assert expected is not None
    assert len(expected.files) == 2
    assert find_key_files([str(folder)]) == find_key_files([f"{folder}/*"]) == expected
    assert count(find_key_files([folder.as_uri()])) == count(expected) > 10


def test_without_paths_there_are_no_key_sources() -> None:
    assert find_key_files([]) is None


def test_relative_paths_start_at_the_folder_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_with(tmp_path, ONE)
    monkeypatch.chdir(tmp_path)
    sources = find_key_files(["keys"])
    monkeypatch.chdir("/")
    assert count(sources) > 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("capture.pcap", "capture.pcap: not a TLS key log: no line has a secret"),
        ("missing.keys", "missing.keys: no such file"),
        ("empty", "empty: no key log here"),
        ("*.log", r"\*.log: no key log here"),
    ],
)
def test_a_path_without_a_key_log_is_reported_in_one_line(
    name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "capture.pcap").write_bytes(tls_captures.path(ONE).read_bytes())
    (tmp_path / "empty").mkdir()
    with pytest.raises(KanalyzeError, match=text):
        find_key_files([str(tmp_path / name)])


def test_lines_added_to_a_key_log_after_it_was_found_are_not_read(tmp_path: Path) -> None:
    file = folder_with(tmp_path, ONE) / f"{ONE}.keys"
    sources = find_key_files([str(file)])
    before = count(sources)
    with file.open("ab") as more:
        more.write(tls_captures.keylog(OTHER).read_bytes())
    assert count(sources) == before < count(find_key_files([str(file)]))


def test_a_removed_key_log_is_reported_in_one_line(tmp_path: Path) -> None:
    file = folder_with(tmp_path, ONE) / f"{ONE}.keys"
    sources = find_key_files([str(file)])
    assert sources is not None
    file.unlink()
    with pytest.raises(KanalyzeError, match=f"{ONE}.keys: No such file"):
        read_keys(sources)


def test_tasks_of_a_process_share_the_key_log_read_last(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, ONE, OTHER)
    one, other = (find_key_files([str(folder / f"{name}.keys")]) for name in (ONE, OTHER))
    assert one is not None
    assert other is not None
    first = shared_keys(one)
    assert shared_keys(one) is first
    assert shared_keys(other) is not first
    assert shared_keys(one) is not first  # only the last one is kept


def test_a_plan_contains_file_names_and_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = []
    monkeypatch.setattr(keylog.KeyLog, "find", lambda *_: looked_up.append(1))
    folder = folder_with(tmp_path, ONE)
    plan = make_plan(option_texts({"table": "requests", "keylog": [folder]}))
    assert not looked_up
    text = repr(plan) + pickle.dumps(plan).decode("latin-1")
    assert f"{ONE}.keys" in text
    for line in (folder / f"{ONE}.keys").read_text().splitlines():
        assert line.split()[-1] not in text


def test_without_captures_that_have_secrets_no_key_sources_are_added() -> None:
    assert with_captures(None, []) is None
    assert with_captures(KeySources(), []) is None
