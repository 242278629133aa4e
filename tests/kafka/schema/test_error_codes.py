from __future__ import annotations

import pytest

from kanalyze.kafka.schema.error_codes import error_code, error_name, is_retriable
from tests.support.facts import rows


def test_every_error_of_the_facts_has_its_name_and_is_retriable_or_not() -> None:
    facts = rows("errors.txt")
    assert len(facts) > 130
    for code, name, retriable, *_ in facts:
        assert error_name(int(code)) == name
        assert error_code(name) == int(code)
        assert is_retriable(int(code)) == (retriable == "true")


@pytest.mark.parametrize("code", [999, -2, 32767, -32768])
def test_an_unknown_code_is_named_by_its_number(code: int) -> None:
    assert error_name(code) == f"UNKNOWN_{code}"
    assert error_code(f"UNKNOWN_{code}") == code
    assert not is_retriable(code)


@pytest.mark.parametrize("name", ["", "UNKNOWN_", "UNKNOWN_-", "UNKNOWN_x", "not_leader", "6"])
def test_a_name_of_no_error_has_no_code(name: str) -> None:
    assert error_code(name) is None
