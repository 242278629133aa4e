from __future__ import annotations

import json
import re

import pytest

from kanalyze.cli.main import main
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import analysis, path

ANY = str(path("any"))


def lines_of(capfdbinary) -> list[bytes]:
    return capfdbinary.readouterr().out.splitlines()


def test_standard_output_gets_an_object_per_request(capfdbinary):
    assert main(["decode", ANY]) == 0
    lines = lines_of(capfdbinary)
    requests = [json.loads(line) for line in lines]
    rows, _ = analysis("any")
    assert [request["requestPacket"] for request in requests] == [
        row.request_packet for row in rows
    ]
    assert all(request["request"] is not None for request in requests)


def test_only_requests_of_the_chosen_apis_are_decoded(capfdbinary):
    assert main(["decode", "--api", "metadata", "--api", "18", ANY]) == 0
    requests = [json.loads(line) for line in lines_of(capfdbinary)]
    names = {request["requestHeader"]["requestApiKeyName"] for request in requests}
    assert names == {"METADATA", "API_VERSIONS"}
    assert all(request["request"] is not None for request in requests)


def test_a_limit_writes_the_first_requests_that_match(capfdbinary):
    assert main(["decode", "--api", "18", ANY]) == 0
    every = lines_of(capfdbinary)
    assert len(every) > 3
    for limit in (1, 3, len(every), len(every) + 1):
        assert main(["decode", "--api", "18", "--limit", str(limit), ANY]) == 0
        assert lines_of(capfdbinary) == every[:limit]


def test_text_is_a_tree_with_an_empty_line_after_each_request(capfdbinary):
    assert main(["decode", "--format", "text", "--api", "ApiVersions", ANY]) == 0
    text = capfdbinary.readouterr().out.decode()
    rows = [row for row in analysis("any")[0] if row.api_key == 18]
    assert text.count("\n\n") == len(rows) == len(re.findall(r"(?m)^ApiVersions v", text))
    assert " more\n" in text
    assert main(["decode", "--format", "text", "--all", "--api", "ApiVersions", ANY]) == 0
    assert " more\n" not in capfdbinary.readouterr().out.decode()


@pytest.mark.parametrize(
    ("name", "first"), [("x.jsonl", b'{"requestHeader"'), ("x.txt", b"ApiVersions")]
)
def test_the_file_extension_sets_the_format(tmp_path, name, first):
    target = tmp_path / name
    assert main(["decode", "-o", str(target), ANY]) == 0
    assert target.read_bytes().startswith(first)


def test_no_output_and_status_0_if_nothing_matches(capfdbinary):
    assert main(["decode", "--port", "1", "--client-id", "nobody", ANY]) == 0
    assert capfdbinary.readouterr().out == b""


def test_messages_cut_by_the_snap_length_have_a_problem(capfdbinary):
    assert main(["decode", str(path("snaplen"))]) == 0
    requests = [json.loads(line) for line in lines_of(capfdbinary)]
    problems = {
        request[key]["kind"] for request in requests for key in request if key.endswith("Problem")
    }
    assert problems == {"missing_bytes"}


def test_only_bytes_of_the_chosen_apis_are_kept(keep_arguments):
    assert main(["decode", "--api", "Fetch", "--api", "3", ANY]) == 0
    (keep,) = keep_arguments
    assert [key for key in range(100) if keep(key)] == [1, 3]
    assert main(["decode", ANY]) == 0
    assert all(map(keep_arguments[1], range(-1, 1000)))


@pytest.fixture
def keep_arguments(monkeypatch):
    """The argument ``keep`` of each analysis that is made."""
    from kanalyze.cli import analyze

    keeps = []

    class EmptyAnalysis:
        quality = CaptureQuality()

        def __init__(self, captures, *, keep, **_others) -> None:
            keeps.append(keep)

        def exchange_blocks(self):
            return iter(())

    monkeypatch.setattr(analyze, "Analysis", EmptyAnalysis)
    return keeps
