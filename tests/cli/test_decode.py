from __future__ import annotations

import json
import re

import pytest

from kanalyze.cli.main import main
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import analysis, path
from tests.support.decoding import exchanges_of

ANY = str(path("any"))


def lines_of(capfdbinary) -> list[bytes]:
    return capfdbinary.readouterr().out.splitlines()


def test_standard_output_gets_an_object_per_request(capfdbinary):
    assert main(["decode", ANY]) == 0
    lines = lines_of(capfdbinary)
    found = [json.loads(line) for line in lines]
    rows, _ = analysis("any")
    assert [one["requestPacket"] for one in found] == [row.request_packet for row in rows]
    assert all(one["request"] is not None for one in found)


def test_filters_hold(capfdbinary):
    assert main(["decode", "--api", "metadata", "--api", "18", ANY]) == 0
    found = [json.loads(line) for line in lines_of(capfdbinary)]
    names = {one["requestHeader"]["requestApiKeyName"] for one in found}
    assert names == {"METADATA", "API_VERSIONS"}
    assert all(one["request"] is not None for one in found)


def test_text_is_a_tree_with_an_empty_line_after_each_request(capfdbinary):
    assert main(["decode", "--format", "text", "--api", "ApiVersions", ANY]) == 0
    shown = capfdbinary.readouterr().out.decode()
    rows = [row for row in analysis("any")[0] if row.api_key == 18]
    assert shown.count("\n\n") == len(rows) == len(re.findall(r"(?m)^ApiVersions v", shown))
    assert " more\n" in shown
    assert main(["decode", "--format", "text", "--all", "--api", "ApiVersions", ANY]) == 0
    assert " more\n" not in capfdbinary.readouterr().out.decode()


@pytest.mark.parametrize(
    ("name", "first"), [("x.jsonl", b'{"requestHeader"'), ("x.txt", b"ApiVersions")]
)
def test_the_ending_of_the_file_says_the_format(tmp_path, name, first):
    target = tmp_path / name
    assert main(["decode", "-o", str(target), ANY]) == 0
    assert target.read_bytes().startswith(first)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "x.csv", ANY], "cannot tell the format of 'x.csv'"),
        (["--api", "Prodduce", ANY], "did you mean Produce"),
        (["--api", "\u00b2", ANY], "unknown API"),
        (["no-such-file.pcap"], "no-such-file.pcap"),
        (["-o", "/no/such/folder/x.jsonl", ANY], "No such file"),
    ],
)
def test_invalid_arguments_are_one_line_and_status_2(capfd, arguments, words):
    assert main(["decode", *arguments]) == 2
    told = capfd.readouterr()
    assert words in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""


def test_a_capture_without_kafka_gives_nothing_and_0(capfdbinary):
    assert main(["decode", "--port", "1", "--client-id", "nobody", ANY]) == 0
    assert capfdbinary.readouterr().out == b""


def test_a_snapped_capture_says_what_is_missing(capfdbinary):
    assert main(["decode", str(path("snaplen"))]) == 0
    found = [json.loads(line) for line in lines_of(capfdbinary)]
    problems = {one[key]["kind"] for one in found for key in one if key.endswith("Problem")}
    assert problems == {"missing_bytes"}


def test_bytes_of_other_apis_are_not_kept(fake_keep):
    assert main(["decode", "--api", "Fetch", "--api", "3", ANY]) == 0
    (keep,) = fake_keep
    assert [key for key in range(100) if keep(key)] == [1, 3]
    assert main(["decode", ANY]) == 0
    assert all(map(fake_keep[1], range(-1, 1000)))


@pytest.fixture
def fake_keep(monkeypatch):
    """The ``keep`` that each analysis was given."""
    from kanalyze.cli import analyze

    given = []

    class Nothing:
        quality = CaptureQuality()

        def __init__(self, captures, *, keep, **others) -> None:
            given.append(keep)

        def exchange_blocks(self):
            return iter(())

    monkeypatch.setattr(analyze, "Analysis", Nothing)
    return given


def test_frames_are_let_go_as_soon_as_they_are_written(monkeypatch, capfdbinary):
    from kanalyze.cli import analyze

    pairs = list(exchanges_of("any"))

    class Fixed:
        progress = 0, None  # a busy machine takes long enough for a line that says so

        def __init__(self, captures, **others) -> None:
            pass

        def exchange_blocks(self):
            yield [one for one, _ in pairs], RowBlock.of_rows([its_row for _, its_row in pairs])

    monkeypatch.setattr(analyze, "Analysis", Fixed)
    assert main(["decode", ANY]) == 0
    assert len(lines_of(capfdbinary)) == len(pairs)
    messages = [one for made, _ in pairs for one in (made.request, made.response) if one]
    assert messages
    assert all(one.data is None for one in messages)


def test_all_is_an_option_of_text(capsys):
    assert main(["decode", "--all", ANY]) == 2
    assert capsys.readouterr().err == "kanalyze: --all works for text only: jsonl has everything\n"
