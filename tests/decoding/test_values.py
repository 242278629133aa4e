from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.decoding.values import api_key_name, uuid_text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Produce", "PRODUCE"),
        ("ApiVersions", "API_VERSIONS"),
        ("LeaderAndIsr", "LEADER_AND_ISR"),
        ("OffsetForLeaderEpoch", "OFFSET_FOR_LEADER_EPOCH"),
        ("AssignReplicasToDirs", "ASSIGN_REPLICAS_TO_DIRS"),
    ],
)
def test_an_api_has_the_name_of_kafkas_enumeration(name, expected):
    assert api_key_name(name) == expected


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_is_22_characters_that_give_its_bytes(value):
    text = uuid_text(value)
    assert len(text) == 22
    assert base64.urlsafe_b64decode(text + "==") == value
