"""Our named tuples behave like those of ``typing``."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing

import pytest

from kanalyze.capture.file_metadata import CaptureInterface
from kanalyze.common.named_tuples import NamedTuple


class Ours(NamedTuple):
    """A class of ours."""

    first: int
    """A docstring of a field."""
    second: str | None = None
    third: tuple[int, ...] = (1, 2)

    @property
    def both(self) -> tuple[int, str | None]:
        return self.first, self.second

    @classmethod
    def of(cls, text: str) -> Ours:
        return cls(int(text), text)


class Theirs(typing.NamedTuple):
    """A class of ours."""

    first: int
    second: str | None = None
    third: tuple[int, ...] = (1, 2)


def test_fields_defaults_and_text_are_those_of_typing():
    for name in ("_fields", "_field_defaults", "__doc__", "__module__", "__mro__"):
        ours, theirs = getattr(Ours, name), getattr(Theirs, name)
        assert ours == theirs if name != "__mro__" else ours[1:] == theirs[1:]
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert (Ours.__name__, Ours.__qualname__) == ("Ours", "Ours")


def test_named_tuples_are_made_compared_shown_and_pickled_as_tuples():
    made = Ours.of("7")
    assert made == (7, "7", (1, 2)) == Theirs(7, "7")
    assert repr(made) == repr(Theirs(7, "7")).replace("Theirs", "Ours")
    assert (made.both, made._replace(first=8).first) == ((7, "7"), 8)
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash((7, "7", (1, 2)))
    with pytest.raises(TypeError):
        Ours()
    with pytest.raises(AttributeError):
        made.first = 1


def test_methods_and_errors_are_those_of_typing():
    for kind in (Ours, Theirs):
        made = kind(7, third=())
        assert made._asdict() == {"first": 7, "second": None, "third": ()}
        assert copy.copy(made) == copy.deepcopy(made) == kind._make([7, None, ()]) == made
        assert kind.__match_args__ == ("first", "second", "third")
        with pytest.raises(TypeError, match="3"):
            kind._make([1, 2])
        # A ValueError of typing's until Python 3.13.
        with pytest.raises((TypeError, ValueError), match="fourth"):
            made._replace(fourth=1)
        with pytest.raises(TypeError, match=rf"{kind.__name__}\.__new__\(\).*first"):
            kind()
        with pytest.raises(TypeError, match="fourth"):
            kind(1, fourth=2)
        with pytest.raises(AttributeError):
            made.fourth = 1
    ours, theirs = (inspect.signature(kind).parameters.values() for kind in (Ours, Theirs))
    assert [(each.name, each.default) for each in ours] == [
        (each.name, each.default) for each in theirs
    ]


def test_classes_with_equally_many_fields_have_names_and_defaults_of_their_own():
    class Other(NamedTuple):
        alpha: int
        beta: int = 2
        gamma: int = 3

    assert Other(alpha=1) == (1, 2, 3)
    assert Ours(first=1) == (1, None, (1, 2))
    assert repr(Other(1)) == "Other(alpha=1, beta=2, gamma=3)"


def test_a_named_tuple_may_have_no_fields():
    class Nothing(NamedTuple):
        pass

    assert Nothing() == () == Nothing._make([])


def test_a_field_without_a_default_after_one_with_a_default_is_an_error():
    with pytest.raises(TypeError, match="default"):

        class Wrong(NamedTuple):
            first: int = 1
            second: int


def test_a_named_tuple_of_the_package_is_a_tuple():
    assert issubclass(CaptureInterface, tuple)
    assert CaptureInterface("x", 1, 0) == CaptureInterface("x", 1, 0, None, None, None, None, None)


def test_annotations_that_are_not_texts_are_fields_too():
    """Python 3.14 has a function in place of the annotations (PEP 649)."""
    eager = {"__annotations__": {"first": int, "second": str}}
    deferred = {"__annotate_func__": lambda form: eager["__annotations__"] if form == 1 else None}
    for annotated in (eager, deferred):
        names = {"__module__": __name__, "__qualname__": "Made", "second": "x", **annotated}
        made = type(NamedTuple)("Made", (NamedTuple,), names)
        assert made(1) == (1, "x")
        assert made._fields == ("first", "second")
        assert typing.get_type_hints(made) == {"first": int, "second": str}
