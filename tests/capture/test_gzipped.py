from __future__ import annotations

import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.capture.gzipped import GzipDamagedError, GzipSource
from kanalyze.capture.source import FileSource

STEADY = settings(deadline=None)


def unpack(packed: bytes, step: int) -> bytes:
    source = GzipSource(FileSource(io.BytesIO(packed), "x", owned=False))
    target, out = bytearray(step), b""
    while count := source.readinto(memoryview(target)):
        out += target[:count]
    return out


@STEADY
@given(st.lists(st.binary(max_size=400), min_size=1, max_size=4), st.integers(1, 500))
def test_members_are_decompressed_one_after_another_in_any_steps(members, step):
    packed = b"".join(gzip.compress(member) for member in members)
    assert unpack(packed, step) == b"".join(members)


def test_a_member_that_unpacks_to_a_thousandfold_is_handed_out_in_steps():
    source = GzipSource(FileSource(io.BytesIO(gzip.compress(bytes(10 << 20))), "x", owned=False))
    target = bytearray(1000)
    assert source.readinto(memoryview(target)) == 1000


@pytest.mark.parametrize(("end", "cut"), [(-1, True), (5, True)])
def test_a_cut_member_is_damage_by_cutting(end, cut):
    with pytest.raises(GzipDamagedError) as caught:
        unpack(gzip.compress(b"data")[:end], 10)
    assert caught.value.cut is cut


def test_a_wrong_checksum_is_damage_but_no_cut():
    packed = bytearray(gzip.compress(b"data"))
    packed[-8] ^= 1
    with pytest.raises(GzipDamagedError, match="damaged gzip data") as caught:
        unpack(bytes(packed), 10)
    assert not caught.value.cut
