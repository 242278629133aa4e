"""Each class that lives across batches says all of its state, and takes up no other."""

from __future__ import annotations

import ast
import enum
import importlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze import frozen
from kanalyze.frozen import StateError, thaw
from kanalyze.plain import from_bytes, to_bytes
from tests.support.captures import path
from tests.support.frozen import Run, first_part, opened, second_part
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(frozen.__file__).parent
TAKERS = {"from_state", "saying", "take_up"}


# -- nothing is forgotten -------------------------------------------------------------------------


def stateful_classes() -> dict[str, ast.ClassDef]:
    """All classes with a method ``state``, by module and name."""
    found = {}
    for file in sorted(ROOT.rglob("*.py")):
        module = ".".join(("kanalyze", *file.relative_to(ROOT).with_suffix("").parts))
        for node in ast.parse(file.read_text()).body:
            if (
                isinstance(node, ast.ClassDef)
                and "state" in methods_of(node)
                and TAKERS & set(methods_of(node))
            ):
                found[f"{module}.{node.name}"] = node
    return found


def methods_of(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}


def names_of_self(node: ast.AST) -> set[str]:
    """Names of the attributes of ``self`` that stand somewhere."""
    return {
        each.attr
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
        for method in methods_of(node).values()
        for each in ast.walk(method)
        if isinstance(each, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in ast.walk(each)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }


STATEFUL = stateful_classes()
BY_OTHERS = ("kanalyze.stages.Stages", "kanalyze.analysis.row_builder.RowBuilder")
"""They live as long as the run, and have parts with a state."""


@pytest.mark.parametrize("name", sorted(set(STATEFUL) - set(BY_OTHERS)))
def test_every_attribute_is_in_the_state_or_named_as_left_out(name: str) -> None:
    node = STATEFUL[name]
    left_out = set(getattr(class_of(name), "_LEFT_OUT", ()))
    attributes = attributes_of(name, node)
    assert left_out <= attributes
    state = methods_of(node)["state"]
    said = attributes if "vars(self)" in ast.unparse(state) else names_of_self(state)
    assert attributes - said - left_out == set()


def test_they_are_all_there() -> None:
    names = {name.rpartition(".")[2] for name in STATEFUL}
    assert {"Reassembler", "ConnectionTracker", "KafkaConnection", "FrameCutter"} <= names
    assert len(STATEFUL) > 40


PLAIN = (int, str, bytes, bool, type(None), enum.Enum, bytearray, memoryview)


def parts_of(value: Any) -> Iterator[Any]:
    """What hangs on a value by attributes that its state has, and by containers."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        yield from value
    elif type(value).__module__.startswith("kanalyze"):
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        if name in STATEFUL:
            left_out = getattr(type(value), "_LEFT_OUT", ())
            for attribute in attributes_of(name, STATEFUL[name]) - set(left_out):
                yield getattr(value, attribute, None)


def test_what_hangs_on_them_has_a_state_too() -> None:
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
    without = {kind for kind in kinds if not hasattr(kind, "state") and not issubclass(kind, tuple)}
    assert without == set()
    assert len(kinds) > 12


# -- what is no state -----------------------------------------------------------------------------


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
    """Where a value is, and where all that is in it."""
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


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["waits", "snaplen", "sasl", "old-0-9-0-1"])
def test_a_value_that_is_another_is_refused_or_read(name: str, change: str) -> None:
    """And what is refused has changed nothing."""
    state = from_bytes(frozen._opened(halfway(name, 150).frozen()))
    dice = Random(change)
    all_places = list(places(state))
    refused = 0
    for at in dice.sample(all_places, min(60, len(all_places))):
        data = frozen._sealed(to_bytes(changed(state, at, CHANGES[change])))
        going = new_run(name)
        before = going.stages._reassembler, going.stages._tracker, going.maker.log_ends
        try:
            thaw(data, going.stages, going.maker)
        except StateError:
            refused += 1
            assert before == (
                *(going.stages._reassembler, going.stages._tracker),
                going.maker.log_ends,
            )
    assert refused > 0


# -- compiled and not -----------------------------------------------------------------------------


PROGRAM = """
import sys
from pathlib import Path
from tests.support.captures import path
from tests.support.frozen import first_part, second_part

kept, name = Path(sys.argv[1]), sys.argv[2]
theirs = kept.read_bytes()
rows = second_part(str(path(name)), 60, theirs).rows
kept.write_bytes(first_part(str(path(name)), 60))
print(len(rows), hash(tuple(map(str, rows))))
"""


@pytest.mark.parametrize("name", ["waits", "sasl", "old-0-9-0-1"])
def test_uncompiled_it_is_the_same_to_the_byte_and_goes_on(name: str, tmp_path: Path) -> None:
    kept = tmp_path / "state"
    state = first_part(str(path(name)), 60)
    kept.write_bytes(state)
    variables = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "0"}
    told = set()
    for pure in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(kept), name],
            env={**os.environ, **variables, "KANALYZE_PURE": pure},
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=True,
        )
        told.add(done.stdout)
        assert kept.read_bytes() == state
    assert len(told) == 1
    assert int(told.pop().split()[0]) == len(second_part(str(path(name)), 60, state).rows) > 0
