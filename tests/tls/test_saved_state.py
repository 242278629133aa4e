"""A run over TLS continues from a saved state, which has no secret in it."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.common.plain_values import from_bytes, to_bytes
from kanalyze.runtime import state as saved
from kanalyze.runtime.state import StateError
from kanalyze.tls.negotiation import _HandshakeTimes
from tests.support import tls_captures
from tests.support.captures import in_turn, often
from tests.support.saved_state import Run, opened, run
from tests.support.tls_talk import log_with
from tests.test_states import CHANGES, PLAIN, STATEFUL, changed, parts_of, places, without_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kanalyze.tls.keylog import KeyLog

FEW = [
    *("tls12-aes256cbc-sha1", "tls12-resumed", "tls13-key-update", "tls13-late", "tls13-lost"),
    "tls13-no-certificate",
]
ALL = [*tls_captures.RECORDED, *tls_captures.LATE, *tls_captures.LOST]
WITH_KEYS = [name for name in ALL if name not in tls_captures.WITH_SECRETS]
SETTINGS: dict[str, Any] = {"connections": True, "every_anomaly": True}
OF_TLS = (2, 3)
"""Indices in the state of the stages: watched TLS, decrypted TLS."""


def marked(names: list[str] = WITH_KEYS) -> list[Any]:
    """A few cases always run; the others are long tests."""
    long = pytest.mark.long
    return [each if each in FEW else pytest.param(each, marks=long) for each in names]


def key_log(name: str) -> KeyLog:
    return log_with(tls_captures.keylog(name).read_bytes())


def secrets_of(name: str) -> list[bytes]:
    """All secrets that are in a key log."""
    text = tls_captures.keylog(name).read_text()
    return [bytes.fromhex(line.split()[-1].rpartition(":")[2]) for line in text.splitlines()]


def file_of(name: str) -> str:
    return str(tls_captures.path(name))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", often(WITH_KEYS, ("tls12-aes256cbc-sha1", "tls13-key-update", "tls13-lost"))
)
def test_a_run_may_be_interrupted_after_every_packet(name: str) -> None:
    settings = {**SETTINGS, "keylog": key_log(name)}
    interrupted = run(file_of(name), most_packets=lambda: 1, breaks=lambda: True, **settings)
    assert interrupted == run(file_of(name), most_packets=lambda: 1, **settings)


@pytest.mark.parametrize("name", marked())
def test_a_run_may_be_interrupted_after_batches_of_any_size(name: str) -> None:
    def outcome(breaks: Callable[[], bool]) -> Any:
        dice = Random(name)
        settings = {**SETTINGS, "keylog": key_log(name)}
        sizes = (1, 3, 40)
        return run(
            file_of(name), most_packets=lambda: dice.choice(sizes), breaks=breaks, **settings
        )

    dice = Random(2)
    assert outcome(lambda: dice.random() < 0.3) == outcome(lambda: False)


def stopped(name: str) -> Iterator[Run]:
    """Yield a run after each of its packets, to be interrupted there."""
    with opened(file_of(name), lambda: 1) as captures:
        going = Run(captures, keylog=key_log(name), **SETTINGS)
        for batch in captures.batches():
            going.take(batch)
            yield going


@pytest.mark.few(3)
@pytest.mark.parametrize("name", marked([name for name in WITH_KEYS if secrets_of(name)]))
def test_no_secret_is_in_a_state(name: str) -> None:
    forms = [form for s in secrets_of(name) for form in (s, s.hex().encode(), s[:16], s[-16:])]
    secret = re.compile(b"|".join(map(re.escape, forms)))
    for number, going in enumerate(stopped(name)):
        if number % 7 == 0:
            assert secret.search(saved._opened(going.saved_state())) is None


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["tls12-aes128gcm", "tls13-sasl"])
def test_a_state_is_the_same_when_it_is_loaded_and_saved_again(name: str) -> None:
    for number, going in enumerate(stopped(name)):
        if number % 5 == 0:
            state = going.saved_state()
            going.load_state(state)
            assert going.saved_state() == state


def test_objects_that_the_streams_hold_have_a_state_too() -> None:
    kinds: set[type] = set()
    for name in ("tls12-aes256cbc-sha1", "tls13-lost"):
        for number, going in enumerate(stopped(name)):
            if number % 40:
                continue
            waiting: list[Any] = [going.stages.tls.streams]
            while waiting:
                value = waiting.pop()
                if not isinstance(value, PLAIN):
                    if type(value).__module__.startswith("kanalyze.tls"):
                        kinds.add(type(value))
                    waiting += parts_of(value)
    assert without_state(kinds) <= {_HandshakeTimes}  # the negotiation saves its attributes
    names = {kind.__name__ for kind in kinds}
    assert {"TlsSession", "TlsDirection", "RecordOpener", "Negotiation", "TlsFacts"} <= names
    assert {f"{kind.__module__}.{kind.__name__}" for kind in kinds if hasattr(kind, "state")} <= {
        *STATEFUL,
    }


# -- without the secrets --------------------------------------------------------------------------


def without_keys_from(name: str, packet: int, **settings: Any) -> tuple[Any, Any]:
    """The results of a run that continues without its key log, and of one that keeps it."""

    def outcome(later: KeyLog | None) -> Any:
        with opened(file_of(name), lambda: 1) as captures:
            going = Run(captures, keylog=key_log(name), **SETTINGS, **settings)
            for number, batch in enumerate(captures.batches()):
                if number == packet:
                    state = going.saved_state()
                    going._settings["keylog"] = later
                    going.load_state(state)
                going.take(batch)
            going.take(None)
        return going.outcome()

    return outcome(None), outcome(key_log(name))


def is_decrypting(going: Run) -> bool:
    """Whether there is an open connection whose data was decrypted."""
    assert going.stages.tls.streams is not None
    followed = going.stages.tls.streams._connections.values()
    return any(each is not None and each.is_decrypted for each in followed)


def connections_without_keys(outcome: Any) -> list[Any]:
    """The serials of connections that are reported to have lost their keys."""
    return [each[-3] for each in outcome.anomalies if each[0] == "keys_missing"]


@pytest.mark.parametrize("name", ["tls12-aes256cbc-sha1", "tls13-sasl"])
@pytest.mark.parametrize("part", often([3, 2], [3]))
def test_a_connection_whose_secret_is_gone_is_read_no_further_and_reported(
    name: str, part: int
) -> None:
    packets = [number for number, going in enumerate(stopped(name)) if is_decrypting(going)]
    cut, whole = without_keys_from(name, packets[len(packets) // part])
    assert connections_without_keys(cut)
    assert len(cut.rows) < len(whole.rows)
    answered = Counter(repr(row) for row in cut.rows if row.status in ("ok", "error"))
    assert 0 < len(answered) < len(whole.rows)
    assert not answered - Counter(map(repr, whole.rows))


def test_missing_keys_are_reported_once_in_any_number_of_interruptions() -> None:
    name = "tls13-sasl"
    with opened(file_of(name), lambda: 1) as captures:
        going = Run(captures, keylog=key_log(name), **SETTINGS)
        for number, batch in enumerate(captures.batches()):
            if number == 150:
                going._settings["keylog"] = None
            if number >= 150:
                going.load_state(going.saved_state())
            going.take(batch)
        going.take(None)
    missing = connections_without_keys(going.outcome())
    assert missing
    assert len(set(missing)) == len(missing)


def test_connections_open_when_keys_come_are_not_decrypted() -> None:
    name = "tls13-aes128gcm"
    with opened(file_of(name), lambda: 1) as captures:
        going = Run(captures, **SETTINGS)
        for number, batch in enumerate(captures.batches()):
            if number == 20:
                state = going.saved_state()
                going._settings["keylog"] = key_log(name)
                going.load_state(state)
            going.take(batch)
        going.take(None)
    found = going.outcome()
    whole = run(file_of(name), most_packets=lambda: 1, keylog=key_log(name), **SETTINGS)
    one, other = ({row.connection for row in outcome.rows} for outcome in (found, whole))
    assert one < other
    assert {row.protocol for row in found.connections} == {"kafka", "tls"}


# -- states that are wrong ------------------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("change", "name"), in_turn(CHANGES, ["tls12-aes256cbc-sha1", "tls13-lost"])
)
def test_a_state_with_a_changed_value_is_refused_or_read(name: str, change: str) -> None:
    """A run continues with every state that is not refused."""
    dice = Random(f"{name} {change}")
    refused = 0
    with opened(file_of(name), lambda: 1) as captures:
        going = Run(captures, keylog=key_log(name), **SETTINGS)
        for number, batch in enumerate(captures.batches()):
            going.take(batch)
            if number % 60:
                continue
            state = from_bytes(saved._opened(going.saved_state()))
            of_tls = [at for at in places(state) if len(at) > 2 and at[0] == 1 and at[1] in OF_TLS]
            for at in dice.sample(of_tls, min(8, len(of_tls))):
                data = saved._sealed(to_bytes(changed(state, at, CHANGES[change])))
                other = Run(captures, keylog=key_log(name), **SETTINGS)
                try:
                    other.load_state(data)
                except StateError:
                    refused += 1
                    continue
                other.stages.finish()
    assert refused > 0
