"""Of bytes come values of the classes that are listed, and nothing else happens."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from array import array
from collections import OrderedDict, deque
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kanalyze import frozen_values
from kanalyze.frozen_values import BadBytesError, from_bytes, to_bytes
from kanalyze.model import AnomalyKind, Endpoint, Gap, RoundTrips, TcpConnection
from kanalyze.net.datagram import Datagram
from kanalyze.net.notes import NetCounters
from kanalyze.protocol.kafka07 import RequestType
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Callable

TCP = TcpConnection(1, (Endpoint("10.0.0.1", 1), Endpoint("::2", 2)), 1, None, 10, 20)


def again(value: Any, **shared: Any) -> Any:
    return from_bytes(to_bytes(value, shared), shared)


def plain(value: Any) -> Any:
    """The attributes of a value, and of those that it has."""
    if isinstance(value, TcpConnection | Datagram | NetCounters | RoundTrips):
        names = getattr(type(value), "__slots__", None) or vars(value)
        return {name: plain(getattr(value, name)) for name in names}
    return value


@pytest.mark.parametrize(
    "value",
    [
        Gap(1, 2, 3, 4),
        AnomalyKind.LOST_BYTES,
        RequestType.FETCH,
        {AnomalyKind.LOST_BYTES: 3},
        TCP,
        RoundTrips(1, 2, None, 3),
        Datagram(5, 6),
        NetCounters(),
        [array("q", [1, -(2**62)]), bytearray(b"x"), {1, 2}, frozenset({3}), None],
    ],
)
def test_a_value_is_the_same_again(value: Any) -> None:
    made = again(value)
    assert type(made) is type(value)
    assert plain(made) == plain(value)


def test_containers_are_what_they_were() -> None:
    queue, ordered = again((deque([1, 2]), OrderedDict([("b", 1), ("a", 2)])))
    assert queue == deque([1, 2])
    assert list(ordered.items()) == [("b", 1), ("a", 2)]
    assert type(ordered) is OrderedDict


@pytest.mark.parametrize("dtype", ["<i8", "<u8", "<i4", ">u2", "<u2", "|b1"])
def test_arrays_are_what_they_were_and_their_own(dtype: str) -> None:
    values = np.arange(5).astype(dtype)
    made = again(values)
    assert made.dtype == values.dtype
    assert made.tolist() == values.tolist()
    made[0] = 1


def test_what_was_one_is_one_again() -> None:
    first, second, (third,) = again((TCP, TCP, [TCP]))
    assert first is second is third


def test_bytes_that_are_looked_at_are_copied() -> None:
    (view,) = again([memoryview(b"0123456789")[2:5]])
    assert view == b"234"
    assert view.obj == b"234"


def test_what_is_shared_is_linked_to_what_is_shared_then() -> None:
    value, reader = Datagram(5, 6), object()
    value.header = reader  # type: ignore[assignment]
    data = to_bytes([value], {"reader": reader, "nothing": None})
    other = object()
    (made,) = from_bytes(data, {"reader": other})
    assert made.header is other
    assert made.total is None


@pytest.mark.parametrize(
    "value",
    [
        memoryview(bytearray(3)),  # a batch's buffer, which is used again
        np.array([1.5]),
        np.array([None]),
        np.zeros((2, 2), np.int64),
        np.int64(3),
        array("d"),
        print,
        int,
        object(),
        Random(1),
        TCP.__init__,
        pickle,
    ],
)
def test_nothing_else_is_taken_for_a_value(value: Any) -> None:
    with pytest.raises(TypeError):
        to_bytes([value], {})


# -- bytes that were made to do harm --------------------------------------------------------------


class Called:
    """Calls what it is told, when it is read."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._reduced = (function, arguments)

    def __reduce__(self) -> Any:
        return self._reduced


def test_nothing_else_is_called(tmp_path: Path) -> None:
    made = tmp_path / "made"
    for function, *arguments in (
        (os.system, f"touch {made}"),
        (eval, f"open({str(made)!r}, 'w')"),
        (open, str(made), "w"),
        (getattr, "", "join"),
        (__import__, "os"),
    ):
        with pytest.raises(BadBytesError, match="not for bytes to name"):
            from_bytes(pickle.dumps((Called(function, *arguments), [])), {})
    assert not made.exists()


def refused(*opcodes: bytes) -> None:
    with pytest.raises(BadBytesError):
        from_bytes(b"\x80\x04" + b"".join(opcodes) + b"]\x86.", {})


def text(value: str) -> bytes:
    return b"X" + len(value.encode()).to_bytes(4, "little") + value.encode()


MAKE = b"ckanalyze.frozen_values\n_MAKE\n"
FILL = b"ckanalyze.frozen_values\n_FILL\n"
FEED = b"}" + text("feed") + b"Ns"  # a dict of one entry


def test_the_bytes_of_these_tests_are_read() -> None:
    made, _ = from_bytes(b"\x80\x04" + MAKE + text("view") + b"C\x01x\x86R" + b"N\x86]\x86.", {})
    assert made == b"x"


@pytest.mark.parametrize(
    "name", ["capture.stores.Stores", "builtins.eval", "os.system", "pipeline.Analysis", ""]
)
def test_only_the_classes_that_are_listed_are_made(name: str) -> None:
    refused(MAKE, text(name), b"\x85R")


@pytest.mark.parametrize("function", [MAKE, FILL])
def test_what_is_called_is_not_changed(function: bytes) -> None:
    refused(function, FEED, b"b")
    refused(function, b"N", FEED, b"\x86b")
    assert frozen_values._MAKE("view", b"x") == b"x"


def test_no_class_is_changed() -> None:
    refused(b"ccollections\ndeque\n", b"N", FEED, b"\x86b")
    refused(FILL, b"ccollections\ndeque\n", FEED, b"\x86R")
    assert not hasattr(deque, "feed")


def test_a_class_is_not_named() -> None:
    refused(b"ckanalyze.model\nTcpConnection\n")
    refused(b"ckanalyze.frozen_values\n_kind\n", text("model.TcpConnection"), b"\x85R")


@pytest.mark.parametrize("attribute", ["__class__", "__dict__", "nothing of the kind"])
def test_only_attributes_of_its_own_are_set(attribute: str) -> None:
    attributes = b"}" + text(attribute) + b"}s"
    refused(MAKE, text("model.TcpConnection"), attributes, b"\x86R")


@pytest.mark.parametrize(
    "argument",
    [
        text("array") + text("O") + b"C\x08AAAAAAAA\x86",
        text("array") + text("<f8") + b"C\x08AAAAAAAA\x86",
        text("waiting") + b"N",
        text("view") + b"N",
        text("integers") + text("a"),
        text("closed") + b"N",
        text("model.Gap") + b")",
        text("model.AnomalyKind") + text("no such kind"),
    ],
)
def test_values_are_made_of_what_they_are_made_of(argument: bytes) -> None:
    refused(MAKE, argument, b"\x86R")


def test_only_values_are_linked() -> None:
    for links in ([({}, "x", "reader")], [(3, "real", "reader")], [(1, 2)], 3):
        with pytest.raises(BadBytesError):
            from_bytes(pickle.dumps((None, links)), {"reader": object()})


def test_cut_and_changed_bytes_raise_nothing_else() -> None:
    data = to_bytes([TCP, Datagram(5, 6), np.arange(3), deque([Gap(1, 2, 3, 4)])], {})
    for length in range(len(data)):
        with pytest.raises(BadBytesError):
            from_bytes(data[:length], {})
    dice = Random(2)
    for _ in range(2000):
        changed = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        try:
            from_bytes(bytes(changed), {})
        except BadBytesError:
            continue


DEEP = """
import sys
from kanalyze.frozen_values import BadBytesError, from_bytes
try:
    from_bytes(sys.stdin.buffer.read(), {})
except BadBytesError as error:
    print(error)
"""


def read_elsewhere(data: bytes) -> tuple[int, str]:
    """What becomes of a process that reads bytes."""
    done = subprocess.run(
        [sys.executable, "-c", DEEP],
        input=data,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(Path(frozen_values.__file__).parents[1])},
        check=False,
        timeout=LONG_S,
    )
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize(
    "key",
    [
        b")" + b"\x85" * 1_000_000,
        b")" + b"\x94\x85" * 300_000,
        b"(" * 300_000 + b")" + b"t" * 300_000,
        # By number, each made of the one before.
        b")\x94" + b"".join(b"j" + n.to_bytes(4, "little") + b"\x85\x94" for n in range(300_000)),
        # With names: Endpoint(ip, port).
        b")" + b"".join(b"N\x86" + b"\x94" for _ in range(300_000)),
    ],
    ids=["alone", "remembered", "marked", "by number", "in pairs"],
)
def test_tuples_that_nest_deeply_end_nothing(key: bytes) -> None:
    status, told = read_elsewhere(b"\x80\x05}" + key + b"Ns]\x86.")
    assert status == 0
    assert "deep" in told


def test_tuples_with_names_that_nest_deeply_end_nothing() -> None:
    begin = MAKE + text("model.Endpoint")
    key = begin * 200_000 + b"N" + b"N\x86\x86R" * 200_000
    status, told = read_elsewhere(b"\x80\x05}" + key + b"Ns]\x86.")
    assert status == 0
    assert "deep" in told


@pytest.mark.parametrize("level", [b"]", b"}"])
def test_what_else_nests_deeply_ends_nothing_either(level: bytes) -> None:
    end = b"a" if level == b"]" else b"s"
    inner = level + (b"N" if level == b"}" else b"")
    status, told = read_elsewhere(b"\x80\x05" + inner * 300_000 + b"N" + end * 300_000 + b"]\x86.")
    assert (status, told) == (0, "")


def test_few_levels_are_read_and_many_values_too() -> None:
    value: Any = ()
    for _ in range(60):
        value = (value, 1)
    assert again({value: [value]}) == {value: [value]}
    many = [(Endpoint("10.0.0.1", port), {(port, (1, 2)): deque([port])}) for port in range(5_000)]
    assert again(many) == many
    with pytest.raises(BadBytesError, match="deep"):
        from_bytes(to_bytes([many, _nested(70)], {}), {})
    assert again(OrderedDict([((1, 2), frozenset({(1, 2)}))]))


def _nested(count: int) -> tuple[Any, ...]:
    return (_nested(count - 1),) if count else ()


def test_opcodes_that_nobody_writes_are_refused() -> None:
    many = b"(" + b")0" * 10 + b"N\x850" * 5_000 + b"1"
    assert from_bytes(b"\x80\x04" + many + b"N]\x86.", {}) is None
    for opcode in (b"I1\n", b"2", b"d", b"l", b"Q", b"\x97", b"P1\n", b"}q\x00"):
        with pytest.raises(BadBytesError):
            from_bytes(b"\x80\x04" + many + opcode + b"N]\x86.", {})
