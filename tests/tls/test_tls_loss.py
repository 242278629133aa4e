"""Lost packets of TLS: records that are not affected are decrypted, and nothing is wrong.

As ``tests/test_loss.py``, with keys. Of a lost record only its own content is lost.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.support import tls_captures
from tests.support.captures import often
from tests.support.loss import Lossy, hello_packets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.spec.rows.requests import Row

WHOLE = [name for name in tls_captures.READABLE if name not in tls_captures.WITH_SECRETS]
OF_1_3 = [name for name in WHOLE if name.startswith("tls13")]
FEW = ["tls13-sasl", "tls13-chacha20", "tls12-long", "tls12-cbc-long", "tls12-chacha20"]
SHARES = (0.001, 0.01, 0.1)
UPDATED = "tls13-key-update"
"""Where the capture begins after a key update, no secret of the log fits any more."""


def dropped(lossy: Lossy, share: float, seed: int) -> frozenset[int]:
    """Numbers of the packets to drop: each with probability ``share``, at least one."""
    noise = random.Random(f"{lossy.name} {share} {seed}")
    numbers = [number for number in range(1, lossy.packets + 1) if noise.random() < share]
    return lossy.with_copies(numbers or [noise.randint(1, lossy.packets)])


def check(lossy: Lossy, gone: frozenset[int]) -> None:
    judgement = lossy.judge(gone)
    assert judgement.wrong == []
    assert unexplained(lossy, judgement.missing, gone) == []


def unexplained(lossy: Lossy, missing: Iterable[Row], gone: frozenset[int]) -> list[Row]:
    """TLS 1.2 needs both hellos; for TLS 1.3 the key log alone may be enough."""
    if lossy.name.startswith("tls/tls13"):
        return list(missing)
    hellos = hello_packets(lossy.name)
    found = []
    for row in missing:
        client = f"{row.client_ip}:{row.client_port}"
        if not hellos[client, row.connection_number] & gone:
            found.append(row)
    return found


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", often(WHOLE, FEW))
def test_untouched_exchanges_are_there_and_no_row_is_wrong(name: str, share: float) -> None:
    lossy = Lossy(f"tls/{name}")
    check(lossy, dropped(lossy, share, 0))


@pytest.mark.long
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", WHOLE)
def test_rows_are_right_after_many_losses(name: str, share: float) -> None:
    lossy = Lossy(f"tls/{name}")
    for seed in range(1, 31):
        check(lossy, dropped(lossy, share, seed))


def late(lossy: Lossy, seed: int) -> frozenset[int]:
    """Numbers of the packets before one, which the capture then begins with."""
    first = random.Random(f"{lossy.name} {seed}").randint(2, lossy.packets)
    return frozenset(range(1, first))


@pytest.mark.parametrize("name", often(WHOLE, FEW))
def test_a_capture_may_begin_with_any_packet(name: str) -> None:
    lossy = Lossy(f"tls/{name}")
    for seed in range(2):
        if name != UPDATED:
            check(lossy, late(lossy, seed))


@pytest.mark.long
@pytest.mark.parametrize("name", WHOLE)
def test_a_capture_may_begin_with_many_packets(name: str) -> None:
    lossy = Lossy(f"tls/{name}")
    for seed in range(2, 32):
        gone = late(lossy, seed)
        judgement = lossy.judge(gone)
        assert judgement.wrong == []
        assert name == UPDATED or unexplained(lossy, judgement.missing, gone) == []


@pytest.mark.few(2)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("name", often(OF_1_3, FEW))
def test_the_first_packets_of_one_direction_may_be_missing(name: str, side: int) -> None:
    """In TLS 1.3, the first packets of the other direction are enough."""
    lossy = Lossy(f"tls/{name}")
    for packets in hello_packets(lossy.name).values():
        first = min(packets) if side == 0 else max(packets)
        check(lossy, lossy.with_copies([first]))


@pytest.mark.parametrize("name", ["tls12-long", "tls12-cbc-long"])
def test_without_its_client_hello_a_session_of_tls_1_2_is_found_in_the_log(name: str) -> None:
    """The log must have its client random, which the agent of Java's brokers does not write."""
    lossy = Lossy(f"tls/{name}")
    found = []
    for packets in hello_packets(lossy.name).values():
        judgement = lossy.judge([min(packets)])
        assert judgement.wrong == []
        found.append(not judgement.missing)
    assert any(found)
