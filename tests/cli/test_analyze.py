from __future__ import annotations

import os
import sys

import pytest

from kanalyze.cli.analyze import analysis_of
from kanalyze.cli.arguments import parser
from kanalyze.errors import DefinitionError, UsageError
from tests.support.definitions import vendor_folder


def analysis(*argv: str):
    return analysis_of(parser().parse_args(["report", *argv, "x.pcap"]))


def test_arguments_become_a_filter_and_brokers(fake):
    fake_analysis = analysis(
        "--port", "9092", "--broker", "10.0.0.9:9092", "--api", "fetch", "--errors"
    )
    assert fake_analysis.captures == ["x.pcap"]
    assert fake_analysis.ports == [9092]
    assert fake_analysis.brokers == ["10.0.0.9:9092"]
    assert fake_analysis.row_filter.conditions == {
        "api": ["Fetch"],
        "broker": ["10.0.0.9:9092"],
        "port": [9092],
        "errors": True,
    }


def test_topic_ids_are_read_from_their_file(fake, tmp_path):
    path = tmp_path / "ids"
    path.write_text("AAAAAAAAAAAAAAAAAAAAAQ __cluster_metadata\n")
    assert analysis("--topic-ids", str(path)).topic_ids == {bytes(15) + b"\1": "__cluster_metadata"}
    with pytest.raises(UsageError, match="missing"):
        analysis("--topic-ids", str(tmp_path / "missing"))


def test_every_filter_reaches_the_rows(fake):
    fake_analysis = analysis(
        *("--client-id", "c", "--client-ip", "10.0.0.0/8", "--topic", "t", "--group", "g"),
        *("--slower-than", "1ms", "--since", "1", "--until", "2"),
        *("--status", "ok", "--error", "-1", "--partition", "t-0"),
    )
    assert fake_analysis.row_filter.conditions == {
        "client_id": ["c"],
        "client_ip": ["10.0.0.0/8"],
        "topic": ["t"],
        "partition": ["t-0"],
        "group": ["g"],
        "status": ["ok"],
        "error": ["UNKNOWN_SERVER_ERROR"],
        "slower_than_ns": 1_000_000,
        "since": "1970-01-01T00:00:01.000000000Z",
        "until": "1970-01-01T00:00:02.000000000Z",
    }


def test_without_filters_every_row_passes(fake):
    assert analysis().row_filter.passes_all


def test_the_default_number_of_jobs_is_the_number_of_cores(fake):
    assert analysis("--jobs", "3").jobs == 3
    assert analysis().jobs == len(os.sched_getaffinity(0))


def test_definitions_become_a_catalog(fake, tmp_path):
    fake_analysis = analysis("--definitions", str(vendor_folder(tmp_path)), "--api", "VendorThing")
    assert fake_analysis.catalog.named("VendorThing").key == 1000
    assert fake_analysis.row_filter.conditions == {"api": ["VendorThing"]}
    with pytest.raises(DefinitionError, match="not a folder"):
        analysis("--definitions", str(tmp_path / "missing"))


def test_a_terminal_as_standard_input_is_refused(fake, monkeypatch):
    arguments = parser().parse_args(["requests", "-"])
    assert analysis_of(arguments).captures == ["-"]
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(UsageError, match=r"^standard input is a terminal: pipe a capture into kan"):
        analysis_of(arguments)
