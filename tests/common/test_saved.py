"""Declared attributes become plain values, and the reverse; other values are refused."""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from enum import Enum
from typing import Any

import pytest

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved, load, load_each, make, save, save_each
from tests.support.cases import for_each


class Colour(Enum):
    RED = "red"


@Saved("ip:str port:u16")
class End(NamedTuple):
    ip: str
    port: int


class Part:
    _SAVED = Saved("size:count", added="is_new:bool")

    def __init__(self) -> None:
        self.size = 0
        self.is_new = True


class Lessened:
    _SAVED = Saved("-old:str? size:count -worn:2*count", added="is_new:bool")

    def __init__(self) -> None:
        self.size = 0
        self.is_new = True


class Bare:
    _SAVED = Saved("value:int?", bare=True)

    def __init__(self) -> None:
        self.value: int | None = None


class Written:
    """It has methods of its own."""

    def __init__(self) -> None:
        self.text = ""

    def state(self, context: Any) -> Any:
        return self.text, context

    def load_state(self, state: Any, context: Any) -> None:
        self.text = f"{state[0]} {context}"


class Owner:
    """Its context is itself."""

    _SAVED = Saved("part:here written:here twice:2*here gone:here?", is_context=True)

    def __init__(self) -> None:
        self.part, self.written = Part(), Written()
        self.twice = [Bare(), Bare()]
        self.gone: Part | None = Part()

    def __str__(self) -> str:
        return "owner"


class Checked:
    """A new one is given its first value; the sum of its values is in no state."""

    _NOT_SAVED = ("sum",)
    _SAVED = Saved("first:int second:int", arguments=1)

    def __init__(self, first: int) -> None:
        self.first = first
        self.second = self.sum = 0

    def _after_load(self) -> None:
        if self.second < 0:
            raise ValueError("less than nothing")
        self.sum = self.first + self.second


class Base:
    _SAVED = Saved("low:int")

    def __init__(self) -> None:
        self.low = 1


class Derived(Base):
    _SAVED = Saved("self:Base high:int part.size:count", Base)

    def __init__(self) -> None:
        super().__init__()
        self.high = 2
        self.part = Part()


SMALL, LARGE = 1 << 62, (1 << 63) - 1
KINDS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    # kind: a value, its plain value, and plain values that are refused
    "int": (-5, -5, (None, True, "5", b"", ())),
    "count": (SMALL, SMALL, (-1, LARGE, None, False)),
    "u16": (65535, 65535, (-1, 65536)),
    "u32": (7, 7, (-1, 1 << 32)),
    "i16": (-32768, -32768, (-32769, 32768)),
    "i32": (-7, -7, (1 << 31,)),
    "end": (1, 1, (2, -1, True, None)),
    "wide": (1 << 144, (1 << 144).to_bytes(19), (-1, "1", bytes(33))),
    "bool": (True, True, (1, 0, None)),
    "str": ("a", "a", (b"a", 1)),
    "bytes": (b"a", b"a", ("a", None)),
    "str?": (None, None, (1,)),
    "bytearray": (bytearray(b"a"), b"a", ("a", None)),
    "memoryview": (memoryview(b"a"), b"a", ("a",)),
    "list[int]": ([1, 2], (1, 2), (1, None, ("a",), (None,))),
    "deque[int?]": (deque([1, None]), (1, None), (("a",),)),
    "tuple[str]": (("a",), ("a",), ((1,),)),
    "set[int]": ({2, 1}, (1, 2), (("a",),)),
    "array[int]": (array("q", [3]), (3,), (("a",), ((),))),
    "dict[str]": ({"b": None, "a": None}, ("b", "a"), ((1,),)),
    "dict[int,str]": ({1: "a"}, ((1, "a"),), (((1,),), ((1, "a", 2),), ((1, "a"), (1, "b")))),
    "ordered[*(int,int),str]": (OrderedDict({(1, 2): "a"}), ((1, 2, "a"),), (((1, "a"),),)),
    "(int,str?)": ((1, None), (1, None), ((1,), (1, None, 2), [1, None])),
    "list[(bool,End)]": ([(True, End("a", 1))], ((True, ("a", 1)),), (((True, ("a",)),),)),
    "Colour": (Colour.RED, "red", ("blue", None)),
    "End?": (End("a", 1), ("a", 1), (("a", 65536), ("a", 1, 2), "a")),
}


def holder_of(kind: str) -> type:
    return type("Holder", (), {"_SAVED": Saved(f"value:{kind}", Colour, End)})


@for_each("kind", KINDS)
def test_a_value_of_each_kind_is_saved_and_loaded(kind: str) -> None:
    holder, (value, plain, others) = holder_of(kind), KINDS[kind]
    one = holder()
    one.value = value
    assert save(one) == (plain,)
    loaded = make(holder, (plain,)).value
    assert (loaded, type(loaded)) == (value, type(value))
    for state in ((), (plain, plain), plain, *((other,) for other in others)):
        with pytest.raises(ValueError, match=r"."):
            make(holder, state)


def test_flat_values_are_saved_as_if_they_were_attributes() -> None:
    holder = type(
        "Flat",
        (),
        {"_SAVED": Saved("ends:*(*End,*End) counts:2*count times:*((int,int)?,int)", End)},
    )
    state = ("a", 1, "b", 2, 3, 4, None, 5)
    flat: Any = make(holder, state)
    assert flat.ends == (End("a", 1), End("b", 2))
    assert (flat.counts, flat.times) == ([3, 4], (None, 5))
    assert save(flat) == state
    with pytest.raises(ValueError, match="not the values"):
        make(holder, state[:-1])


def test_added_attributes_may_be_missing() -> None:
    part = make(Part, (5,))
    assert (part.size, part.is_new) == (5, True)
    assert save(make(Part, (5, False))) == (5, False)


def test_attributes_that_are_no_more_are_read_only_of_the_format_before() -> None:
    part = make(Lessened, ("a", 5, 6, 7))
    assert vars(part) == {"size": 5, "is_new": True}
    assert save(part) == (5, True)
    assert vars(make(Lessened, (5, False))) == {"size": 5, "is_new": False}
    for state in (("a", 5, 6, -7), (0, 5, 6, 7), ("a", 5, 6), ("a", 5, 6, 7, True)):
        with pytest.raises(ValueError, match=r"no value|not the values"):
            make(Lessened, state)


def test_objects_that_are_there_are_loaded_in_place() -> None:
    owner, saved = Owner(), Owner()
    saved.part.size, saved.twice[1].value, saved.gone = 3, 4, None
    state = save(saved)
    assert state[1][1] is saved
    part = owner.part
    load(owner, ((3, True), ("a", None), None, 4, None))
    assert (owner.part, part.size, owner.twice[1].value, owner.gone) == (part, 3, 4, None)
    assert owner.written.text == "a owner"
    with pytest.raises(ValueError, match="only one of two runs"):
        load(owner, ((3, True), ("a", None), None, 4, (3, True)))


def test_what_follows_from_values_is_computed_and_checked() -> None:
    assert make(Checked, (1, 2)).sum == 3
    with pytest.raises(ValueError, match="less than nothing"):
        make(Checked, (1, -2))


def test_a_class_saves_what_its_base_saves() -> None:
    derived = Derived()
    load(derived, ((7,), 8, 9))
    assert (derived.low, derived.high, derived.part.size) == (7, 8, 9)
    assert save(derived) == ((7,), 8, 9)


def test_objects_by_number_are_made_by_the_caller() -> None:
    part = Part()
    part.size = 2
    state = save_each({7: part})
    assert state == ((7, (2, True)),)
    assert load_each(state, lambda _: Part())[7].size == 2
    for wrong in (None, (1,), ((7, (2, True), 1),), (("7", (2, True)),), state + state):
        with pytest.raises(ValueError, match=r"."):
            load_each(wrong, lambda _: Part())
