from __future__ import annotations

from pathlib import Path

import pytest

from kanalyze.kafka.schema.api_table import RELEASES
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.schema.error_table import ERRORS
from kanalyze.render.protocol import (
    api_facts,
    api_lines,
    apis_lines,
    error_facts,
    errors_lines,
    summary_facts,
)
from tests.support.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"
CATALOG = Catalog()


def lines_of(lines) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_the_table_of_apis_equals_its_golden_file():
    assert_golden(lines_of(apis_lines(CATALOG)), GOLDEN / "protocol-apis.txt")


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (60, "key API versions flexible 3.9 4.4"),
        (80, "key API versions flexible since 3.9 4.4"),
        (120, "key API versions flexible since 3.9 4.4 listeners"),
    ],
)
def test_the_table_of_apis_fits_a_terminal(width, titles):
    lines = list(apis_lines(CATALOG, width))
    assert max(map(len, lines)) <= width
    assert lines[0].split() == titles.split()
    assert len(lines) > len(list(apis_lines(CATALOG))) - 1


@pytest.mark.parametrize("name", ["Fetch", "ControlledShutdown", "SaslHandshake", "ListGroups"])
def test_an_api_equals_its_golden_file(name):
    text = lines_of(api_lines(CATALOG, CATALOG.named(name)))
    assert_golden(text, GOLDEN / f"protocol-{name}.txt")


def test_every_api_and_every_field_has_a_line():
    table = lines_of(apis_lines(CATALOG))
    for api in CATALOG.apis:
        assert f" {api.name} " in table
        text = lines_of(api_lines(CATALOG, api))
        for kind in ("request", "response"):
            for field in CATALOG.message(api.key, kind).struct.fields:
                assert f"  {field.json_name} " in text


def test_every_error_code_has_a_line_that_says_whether_to_retry():
    lines = list(errors_lines())
    assert len(lines) == len(ERRORS) + 1
    assert lines[1].split() == ["-1", "UNKNOWN_SERVER_ERROR", "no"]
    assert "3  UNKNOWN_TOPIC_OR_PARTITION" in lines[5]
    assert lines[5].split()[-1] == "yes"
    assert [fact["code"] for fact in error_facts()] == sorted(ERRORS)


def test_facts_of_an_api_have_its_versions_in_each_release():
    facts = summary_facts(CATALOG.named("Produce"))
    assert facts["versions"] == [0, 13]
    assert facts["releases"]["3.9"] == [0, 11]
    assert facts["releases"]["4.0"] == [3, 12]
    assert set(facts["releases"]) == set(RELEASES)
    removed = summary_facts(CATALOG.named("LeaderAndIsr"))
    assert removed["releases"]["4.0"] is None
    assert removed["enumName"] == "LEADER_AND_ISR"
    assert summary_facts(CATALOG.named("SaslHandshake"))["requestFlexibleFrom"] is None


def test_facts_of_an_api_have_its_fields_and_headers():
    facts = api_facts(CATALOG, CATALOG.named("ControlledShutdown"))
    assert facts["requestHeaders"] == {"0": 0, "1": 1, "2": 1, "3": 2}
    assert facts["responseHeaders"] == {"0": 0, "1": 0, "2": 0, "3": 1}
    epoch = facts["request"]["fields"][1]
    assert (epoch["name"], epoch["versions"], epoch["default"]) == ("brokerEpoch", "2-3", "-1")
    (_, remaining) = facts["response"]["fields"]
    assert [field["name"] for field in remaining["fields"]] == ["topicName", "partitionIndex"]
