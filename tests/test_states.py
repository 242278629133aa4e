"""Each class that lives across batches saves all of its state, and loads nothing else."""

from __future__ import annotations

import ast
import enum
import importlib
import io
import operator
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.common.plain_values import from_bytes, to_bytes
from kanalyze.kafka.codec.compiler import Decoders, Projection
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime import state as saved
from kanalyze.runtime.state import StateError, load_state
from tests.runtime.test_state import IN_DISORDER, login_with_raw_tokens, old_traffic
from tests.support import kafka as k
from tests.support.captures import in_turn, often, path
from tests.support.cases import for_each
from tests.support.conversations import conversations
from tests.support.disorder import altered
from tests.support.saved_state import Run, first_part, opened, second_part
from tests.support.traffic import Line, capture_of, produce
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(saved.__file__).parent.parent
LOADERS = {"from_state", "load_state"}


# -- every attribute is saved ----------------------------------------------------------------------


def stateful_classes() -> dict[str, ast.ClassDef]:
    """All classes that declare or write what is saved of them, by module and name."""
    found = {}
    for file in sorted(ROOT.rglob("*.py")):
        module = ".".join(("kanalyze", *file.relative_to(ROOT).with_suffix("").parts))
        text = file.read_text()
        if "def state(" not in text and "Saved(" not in text:  # to parse all takes a second
            continue
        classes = {n.name: n for n in ast.parse(text).body if isinstance(n, ast.ClassDef)}
        for name, node in classes.items():
            methods = methods_of(node)
            if declares_state(node) or ("state" in methods and LOADERS & methods.keys()):
                found[f"{module}.{name}"] = node
                for base in map(classes.get, map(ast.unparse, node.bases)):
                    if base is not None and not declares_state(base):  # it is saved by this one
                        node.body += base.body
    return found


def declares_state(node: ast.ClassDef) -> bool:
    return any(
        isinstance(each, ast.Call) and ast.unparse(each.func) == "Saved"
        for each in node.decorator_list
    ) or any(
        isinstance(target, ast.Name) and target.id == "_SAVED"
        for each in node.body
        if isinstance(each, ast.Assign)
        for target in each.targets
    )


def methods_of(node: ast.ClassDef) -> dict[str, list[ast.FunctionDef]]:
    """Methods by name; a property has two."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for each in node.body:
        if isinstance(each, ast.FunctionDef):
            found.setdefault(each.name, []).append(each)
    return found


def names_of_self(nodes: list[ast.FunctionDef]) -> set[str]:
    """Names of the attributes of ``self`` that occur in methods."""
    return {
        each.attr
        for node in nodes
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }


def class_of(name: str) -> Any:
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(module), own)


def attributes_of(name: str, node: ast.ClassDef) -> set[str]:
    kind = class_of(name)
    if issubclass(kind, tuple):
        return set(kind._fields)
    if "__slots__" in vars(kind):
        return set(kind.__slots__) - {"__weakref__"}
    return {
        target.attr
        for methods in methods_of(node).values()
        for method in methods
        for each in ast.walk(method)
        if isinstance(each, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in ast.walk(each)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }


STATEFUL = stateful_classes()
BY_OTHERS = (
    "kanalyze.runtime.stages.Stages",
    "kanalyze.tables.requests.row_assembler.RowAssembler",
)
"""They live as long as the run, and have parts with a state."""


def names_in_state(name: str) -> set[str]:
    """The attributes that are saved, by themselves or by a property."""
    methods = methods_of(STATEFUL[name])
    layout = getattr(class_of(name), "_SAVED", None)
    if layout is None:
        named = names_of_self(methods["state"])
    else:
        named = {each.partition(".")[0] for each in layout.names}
        if "self" in named:  # the attributes that base classes save
            named.update(*[base._SAVED.names for base in class_of(name).__mro__[1:-1]])
        assert layout.attributes, "kinds that can be read"
        assert named.isdisjoint(getattr(class_of(name), "_NOT_SAVED", ()))
    return named.union(*[names_of_self(methods[each]) for each in named & methods.keys()])


@for_each("name", sorted(set(STATEFUL) - set(BY_OTHERS)))
def test_every_attribute_is_in_the_state_or_named_as_left_out(name: str) -> None:
    left_out = set(getattr(class_of(name), "_NOT_SAVED", ()))
    attributes = attributes_of(name, STATEFUL[name])
    assert left_out <= attributes
    assert attributes - names_in_state(name) - left_out == set()


def test_all_stateful_classes_are_found() -> None:
    names = {name.rpartition(".")[2] for name in STATEFUL}
    assert {"Reassembler", "ConnectionTracker", "KafkaConnection", "FrameCutter"} <= names
    assert len(STATEFUL) > 40


PLAIN = (int, str, bytes, bool, type(None), enum.Enum, bytearray, memoryview)


def parts_of(value: Any) -> Iterator[Any]:
    """The values that a value holds, as attributes that its state has or as items."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        yield from value
    elif type(value).__module__.startswith("kanalyze"):
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        if name in STATEFUL:
            layout = getattr(type(value), "_SAVED", None)
            inner = {each for each in layout.names if "." in each} if layout else set()
            left_out = {*getattr(type(value), "_NOT_SAVED", ()), *(n.split(".")[0] for n in inner)}
            for attribute in attributes_of(name, STATEFUL[name]) - left_out:
                yield getattr(value, attribute, None)
            for attribute in inner:  # parts of an object that is made again with its owner
                yield operator.attrgetter(attribute)(value)


def without_state(kinds: set[type]) -> set[type]:
    """Those of some classes that neither declare nor write what is saved of them."""
    return {
        kind
        for kind in kinds
        if not any(hasattr(kind, name) for name in ("_SAVED", "state", "_fields"))
    }


def test_objects_that_stateful_objects_hold_have_a_state_too() -> None:
    going = halfway("waits", 300)
    waiting = [going.stages._reassembler, going.stages._tracker]
    seen: set[int] = set()
    kinds = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, PLAIN) or id(value) in seen:
            continue
        seen.add(id(value))
        if type(value).__module__.startswith("kanalyze"):
            kinds.add(type(value))
        waiting += parts_of(value)
    assert without_state(kinds) == set()
    assert len(kinds) > 12


def odd_conversations(seed: int) -> bytes:
    return conversations(Random(seed), is_calm=seed % 2 == 0)


def altered_file(change: str) -> bytes:
    (data,) = altered("waits", change).files
    return data


# -- a state that is saved again ------------------------------------------------------------------


def one_way() -> bytes:
    packets: list[bytes] = []
    line = Line(packets).open().client(produce(1, 9, acks=0), produce(2, 9, acks=0))
    line.client(k.heartbeat(3))
    return capture_of(packets)


def undetected() -> bytes:
    """Connections not detected (yet): one begins within a request, others are not Kafka."""
    packets: list[bytes] = []
    other = Line(packets, client_port=2000).open().client(Random(3).randbytes(60))
    line = Line(packets)
    line.client(produce(1, 9)[10:]).client(produce(2, 9)[:60]).broker(bytes(range(40)))
    other.broker(Random(4).randbytes(60)).reset()
    line.client(produce(2, 9)[60:]).client(k.heartbeat(3)).broker(k.heartbeat_answer(3))
    Line(packets, client_port=2001).open().client(b"hello\n")
    return capture_of(packets)


TRAFFIC: dict[str, Callable[[], bytes]] = {
    **{name: path(name).read_bytes for name in ("waits", "sasl", "snaplen", "tls", "old-0-9-0-1")},
    **{f"odd {seed}": partial(odd_conversations, seed) for seed in range(6)},
    **{change: partial(altered_file, change) for change in IN_DISORDER},
    "Kafka 0.7": old_traffic,
    "raw tokens": login_with_raw_tokens,
    "not known": undetected,
    "without acks": one_way,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "measured": {"connections": True, "every_anomaly": True, "idle_ns": 5 * 10**9},
}


def stopped(data: bytes, **settings: Any) -> Iterator[Run]:
    """Yield a run each time that it is interrupted after a batch."""
    dice = Random(len(data))
    is_short = len(data) < 20_000
    with opened(io.BytesIO(data), lambda: 1 if is_short else dice.choice((1, 3, 40))) as captures:
        going = Run(captures, **settings)
        for number, batch in enumerate(captures.batches()):
            going.take(batch)
            if is_short or number % 7 == 0:
                yield going


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "settings"), in_turn(TRAFFIC, SETTINGS))
def test_a_state_is_the_same_when_it_is_loaded_and_saved_again(name: str, settings: str) -> None:
    data = TRAFFIC[name]()
    for going in stopped(data, **SETTINGS[settings]):
        state = going.saved_state()
        going.load_state(state)
        assert going.saved_state() == state


# -- states that are wrong ------------------------------------------------------------------------


def halfway(name: str, packets: int) -> Run:
    with opened(str(path(name)), lambda: 7) as captures:
        going = Run(captures)
        read = 0
        for batch in captures.batches():
            going.take(batch)
            read += len(batch)
            if read >= packets:
                break
    return going


def new_run(name: str) -> Run:
    with opened(str(path(name)), lambda: 1) as captures:
        return Run(captures)


def places(value: Any, at: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """The path of a value, and of every value in it."""
    yield at
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from places(item, (*at, index))


def changed(value: Any, at: tuple[int, ...], to: Any) -> Any:
    if not at:
        return to(value)
    index, *rest = at
    return (*value[:index], changed(value[index], tuple(rest), to), *value[index + 1 :])


CHANGES = {
    "nothing": lambda value: None if value is not None else 0,
    "a text": lambda value: "text" if value != "text" else "other",
    "bytes": lambda _: b"bytes",
    "an item more": lambda value: (*value, 1) if isinstance(value, tuple) else (value,),
    "an item less": lambda value: value[:-1] if isinstance(value, tuple | bytes | str) else -1,
    "twice": lambda value: value + value if isinstance(value, tuple | bytes) else (value, value),
    "very high": lambda _: (1 << 63) - 1,
    "very low": lambda _: -(1 << 63),
    "one more": lambda value: value + 1 if type(value) is int else True,
    "minus one": lambda _: -1,
    "deep": lambda _: ((((((1,),),),),),),
}


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("change", "name"), in_turn(CHANGES, ["waits", "snaplen", "sasl", "old-0-9-0-1"])
)
def test_a_state_with_a_changed_value_is_refused_or_read(change: str, name: str) -> None:
    """A state that is refused changes nothing."""
    state = from_bytes(saved._opened(halfway(name, 150).saved_state()))
    dice = Random(change)
    all_places = list(places(state))
    refused = 0
    for at in dice.sample(all_places, min(60, len(all_places))):
        data = saved._sealed(to_bytes(changed(state, at, CHANGES[change])))
        going = new_run(name)
        before = going.stages._reassembler, going.stages._tracker, going.maker.long_polls
        try:
            load_state(data, going.stages, going.maker)
        except StateError:
            refused += 1
            assert before == (
                *(going.stages._reassembler, going.stages._tracker),
                going.maker.long_polls,
            )
    assert refused > 0


@pytest.mark.parametrize("name", often(["waits", "snaplen", "sasl"], ["sasl"]))
def test_a_run_continues_from_every_state_that_is_not_refused(name: str) -> None:
    """A wrong value that no check notices breaks nothing."""
    state = from_bytes(saved._opened(first_part(str(path(name)), 60)))
    dice = Random(name)
    of_connections = [at for at in places(state) if len(at) > 2 and at[:3] != (1, 0, 3)]
    outcomes = set()
    for _ in range(30):
        to = CHANGES[dice.choice(list(CHANGES))]
        data = saved._sealed(to_bytes(changed(state, dice.choice(of_connections), to)))
        try:
            second_part(str(path(name)), 60, data)
            outcomes.add("read")
        except StateError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


def decoder_of(api_key: int, kind: Any, version: int, *paths: str) -> Any:
    catalog = Catalog()
    projection = Projection.of(*paths) if paths else Projection.ALL
    return Decoders(catalog).get(api_key, kind, version, projection)


@pytest.mark.parametrize(
    ("cells", "texts"),
    [
        ((), b""),
        ((3, 0, 5), b"ab"),
        ((3, -1, 5), b"abc"),
        ((1 << 62, 1, 5), b"abc"),
        ((1, 3, 5), b"abc"),
        ((1, 0), b"a"),
        ((1, 0, 5, 6), b"a"),
        ((1, 0, "5"), b"a"),
        ((1, 0, 1 << 63), b"a"),
        (None, b"a"),
        ((1, 0, 5), None),
    ],
)
def test_cells_that_do_not_fit_a_layout_are_refused(cells: Any, texts: Any) -> None:
    decode = decoder_of(k.HEARTBEAT, "request", 0, "GroupId", "GenerationId")
    right = decode.fields_from_state(((1, 0, 5), b"a"))
    assert right.values() == ("a", 5)
    assert right.state() == ((1, 0, 5), b"a")
    with pytest.raises((ValueError, OverflowError, TypeError)):
        decode.fields_from_state((cells, texts))


def test_more_elements_than_there_are_cells_are_refused() -> None:
    decode = decoder_of(k.METADATA, "request", 1, "Topics.Name")
    assert decode.fields_from_state(((2, 1, 0, 1, 1), b"ab")).values() == ([("a",), ("b",)],)
    for count in (3, 1 << 40, (1 << 63) - 1):
        with pytest.raises(ValueError, match="cells"):
            decode.fields_from_state(((count, 1, 0, 1, 1), b"ab"))


def test_too_many_elements_without_cells_are_refused() -> None:
    # Only the topic id is selected, and this version has none: elements take no cells.
    decode = decoder_of(k.METADATA, "request", 1, "Topics.TopicId")
    assert len(decode.fields_from_state(((5,), b"")).values()[0]) == 5
    with pytest.raises(ValueError, match="take no cells"):
        decode.fields_from_state((((1 << 40),), b""))


# -- compiled and not -----------------------------------------------------------------------------


PROGRAM = """
import sys
from functools import partial
from pathlib import Path
from tests.support.captures import path
from tests.support.saved_state import first_part, second_part

for name in sys.argv[2:]:
    kept = Path(sys.argv[1], name)
    theirs = kept.read_bytes()
    rows = second_part(str(path(name)), 60, theirs).rows
    kept.write_bytes(first_part(str(path(name)), 60))
    print(len(rows), hash(tuple(map(str, rows))))
"""


@pytest.mark.long
def test_compiled_and_uncompiled_runs_load_and_save_the_same_states(tmp_path: Path) -> None:
    names = ("waits", "sasl", "old-0-9-0-1")
    states = {name: first_part(str(path(name)), 60) for name in names}
    for name, state in states.items():
        (tmp_path / name).write_bytes(state)
    variables = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "0"}
    outputs = set()
    for pure in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), *names],
            env={**os.environ, **variables, "KANALYZE_PURE": pure},
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=True,
        )
        outputs.add(done.stdout)
        assert {name: (tmp_path / name).read_bytes() for name in names} == states
    assert len(outputs) == 1
    counts = [int(line.split()[0]) for line in outputs.pop().splitlines()]
    rows = [len(second_part(str(path(name)), 60, state).rows) for name, state in states.items()]
    assert counts == rows
    assert min(rows) > 0
