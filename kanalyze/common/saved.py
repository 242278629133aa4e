"""The saved attributes of a class, declared; objects as plain values, and back.

In: objects whose classes name their saved attributes. Out: plain values
(:mod:`kanalyze.common.plain_values`); or objects with the attributes that such values hold, or
ValueError, TypeError or OverflowError for values that are no such state.

A class says in ``_SAVED`` which of its attributes are saved, and of what kind they are; a named
tuple says it in a decorator. In ``_NOT_SAVED`` are the names of all others: those that it shares
with others, those that follow from saved ones, and those that are empty between two batches. Two
methods, where there are such: ``_after_load`` computes what follows, and refuses values that do not
fit together; ``_before_save`` brings the attributes into the form in which they are saved.

A class whose state is more than its attributes has methods of its own instead:
``state(context)``, and ``load_state(state, context)`` for an object that is there, or the class
method ``from_state(state, context)``. The context is what the caller of :func:`save` and
:func:`load` gave.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict, deque
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from kanalyze.common.plain_values import from_wide, is_of_kind, wide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kanalyze.common.plain_values import State

Made = TypeVar("Made")

_WORD_OR_SIGN = r"\w+|\S"
_GONE = "-"


class Saved:
    """The saved attributes of a class, in the order in which their values are saved.

    An attribute is a name, a colon and a kind, without blanks between them. The kinds:

    - ``int`` of 64 bits, ``count`` (0 to 2^62), ``u16``, ``u32``, ``i16``, ``i32``, ``end`` (0 or
      1: one of two ends or directions), ``wide`` (0 or more, up to 256 bits), ``bool``, ``str``,
      ``bytes``, ``bytearray``, ``memoryview``;
    - ``list[K]``, ``deque[K]``, ``tuple[K]``, ``set[K]``, ``array[K]`` of any length, ``dict[K]``
      of keys alone, ``dict[K,V]``, ``ordered[K,V]``, and ``(K,V)`` for a tuple of as many values as
      there are kinds;
    - the name of a class: an object that is made when it is loaded; or of an enumeration;
    - ``here``: an object that is there when it is loaded; ``here?``: it becomes None if it was.

    ``K?`` allows None. The values of ``*(K,V)``, of the named tuple ``*N``, and of ``2*K``, a list
    of two, are saved as if they were attributes of their own. ``self:K`` stands for the attributes
    that the base class ``K`` saves. A dot leads to an attribute of an attribute. ``-name`` is an
    attribute that is no more: only a state of the format before has its value.

    An object that leaves out attributes, or may lack ``added`` ones, is made by its class; another
    is made without, as all its attributes are loaded.
    """

    def __init__(
        self,
        attributes: str,
        *classes: type,
        added: str = "",
        arguments: int = 0,
        bare: bool = False,
        is_context: bool = False,
    ) -> None:
        """Declare attributes.

        Args:
            attributes: attributes with their kinds.
            classes: the classes that occur among the kinds.
            added: attributes that a state of the format before lacks, all of them together. Then
                they keep the values that they have in a new object.
            arguments: the number of attributes, the first, whose values a new object is given as
                arguments. All fields of a named tuple are arguments.
            bare: the state is the value of the only attribute, not a tuple of values.
            is_context: the object is the context of the objects that it holds.
        """
        self._text = attributes
        self._added = added
        self._classes = {each.__name__: each for each in classes}
        self.arguments = arguments
        self.bare = bare
        self.is_context = is_context
        self.is_complete = not added
        """A state has all attributes."""
        self._of_width: dict[int, list[_Attribute]] = {}

    def __call__(self, kind: type[Made]) -> type[Made]:
        """Declare the fields of a named tuple; used as a decorator."""
        kind._SAVED = self  # type: ignore[attr-defined]
        return kind

    @property
    def names(self) -> list[str]:
        """Names of the attributes; ``self`` for those of a base class."""
        names = [each.partition(":")[0] for each in f"{self._text} {self._added}".split()]
        return [name for name in names if not name.startswith(_GONE)]

    @property
    def attributes(self) -> list[_Attribute]:
        """All attributes."""
        if not self._of_width:  # not when the class is made: most commands save nothing
            before, added = self._read(self._text), self._read(self._added)
            kept = [each for each in before if not each.is_gone]
            for attributes in (before, kept + added):
                width = sum([each.width for each in attributes])
                self._of_width[width] = self._of_width[-1] = attributes
        return self._of_width[-1]

    def _read(self, text: str) -> list[_Attribute]:
        return [_KindReader(each, self._classes).attribute() for each in text.split()]

    def of_state(self, state: object) -> tuple[list[_Attribute], Iterator[Any]]:
        """Return the attributes that a state has, and its values; raises ValueError."""
        every = self.attributes
        if self.bare:
            return every, iter((state,))
        if not isinstance(state, tuple) or len(state) not in self._of_width:
            raise ValueError(f"not the values of {self._text}")
        return self._of_width[len(state)], iter(state)

    def save(self, value: Any, context: Any, values: list[Any]) -> None:
        """Append the values of an object's attributes."""
        inner = value if self.is_context else context
        for attribute in self.attributes:
            attribute.save(value, inner, values)

    def load(
        self, value: Any, attributes: list[_Attribute], values: Iterator[Any], context: Any
    ) -> None:
        """Set attributes of an object."""
        inner = value if self.is_context else context
        for attribute in attributes:
            attribute.load(value, values, inner)


# -- objects --------------------------------------------------------------------------------------


def save(value: Any, context: Any = None) -> Any:
    """Return the state of an object: a plain value."""
    layout: Saved | None = getattr(value, "_SAVED", None)
    if layout is None:
        return value.state(context)
    before_save = getattr(value, "_before_save", None)
    if before_save is not None:
        before_save()
    values: list[Any] = []
    layout.save(value, context, values)
    return values[0] if layout.bare else tuple(values)


def load(value: Any, state: object, context: Any = None) -> None:
    """Load a state into a new object; raises ValueError if it is no state of such an object."""
    layout: Saved | None = getattr(value, "_SAVED", None)
    if layout is None:
        value.load_state(state, context)
    else:
        attributes, values = layout.of_state(state)
        layout.load(value, attributes, values, context)
        _check(value)


def make(kind: type[Made], state: object, context: Any = None) -> Made:
    """Return a new object with a state; raises ValueError if it is no state of such an object."""
    layout: Saved | None = getattr(kind, "_SAVED", None)
    made: Made
    if layout is None:
        made = kind.from_state(state, context)  # type: ignore[attr-defined]
    else:
        attributes, values = layout.of_state(state)
        made = _made(kind, layout, attributes, values, context)
    return made


def _made(
    kind: Any, layout: Saved, attributes: list[_Attribute], values: Iterator[Any], context: Any
) -> Any:
    count = len(attributes) if issubclass(kind, tuple) else layout.arguments
    left_out: tuple[str, ...] = getattr(kind, "_NOT_SAVED", ())
    if count or left_out or not layout.is_complete:
        made = kind(*[each.kind.load(values, context) for each in attributes[:count]])
    else:
        made = kind.__new__(kind)
    layout.load(made, attributes[count:], values, context)
    _check(made)
    return made


def _check(value: Any) -> None:
    after_load = getattr(value, "_after_load", None)
    if after_load is not None:
        after_load()


def save_each(objects: Mapping[int, Any], context: Any = None) -> State:
    """Return the states of objects by their number, for :func:`load_each`."""
    return tuple([(number, save(value, context)) for number, value in objects.items()])


def load_each(state: object, made: Callable[[int], Made], context: Any = None) -> dict[int, Made]:
    """Return objects by their number, such as the serial number of a connection.

    Args:
        state: numbers and states of objects.
        made: returns a new object for a number; raises ValueError if there may be none.
        context: as for :func:`load`.

    Raises:
        ValueError: the state is any other value.
    """
    objects: dict[int, Made] = {}
    for number, each in _NUMBERED.value(state, None):
        objects[number] = made(number)
        load(objects[number], each, context)
    if len(objects) < len(state):  # type: ignore[arg-type]
        raise ValueError("two objects of one number")
    return objects


class _Attribute:
    """A saved attribute of a class."""

    def __init__(self, name: str, kind: _Kind) -> None:
        *self._owners, self._name = name.split(".")
        self.kind = kind
        self.width = kind.width
        self.is_gone = name.startswith(_GONE)
        self._is_plain = isinstance(kind, _Plain)

    def save(self, owner: Any, context: Any, values: list[Any]) -> None:
        """Append the value of an object's attribute to its state."""
        value = self._value(owner)
        if self._is_plain:
            values.append(value)
        else:
            self.kind.save(value, context, values)

    def load(self, owner: Any, values: Iterator[Any], context: Any) -> None:
        """Set the attribute of an object to the next of the values in its state."""
        kind = self.kind
        if self.is_gone:
            kind.load(values, context)
            return
        if isinstance(kind, _InPlace) and not kind.load_into(self._value(owner), values, context):
            return
        for each in self._owners:
            owner = getattr(owner, each)
        setattr(owner, self._name, kind.load(values, context))

    def _value(self, owner: Any) -> Any:
        for each in self._owners:
            owner = getattr(owner, each)
        return owner if self._name == "self" else getattr(owner, self._name)


# -- kinds ----------------------------------------------------------------------------------------


class _Kind:
    """A kind of values, and how they are saved."""

    @property
    def width(self) -> int:
        """How many plain values stand for one."""
        return 1

    def save(self, value: Any, context: Any, values: list[Any]) -> None:
        """Append the plain values that stand for a value."""
        raise NotImplementedError

    def load(self, values: Iterator[Any], context: Any) -> Any:
        """Return the value that the next plain values stand for; raises ValueError if none."""
        raise NotImplementedError


class _Single(_Kind):
    """A kind of which each value is one plain value."""

    def save(self, value: Any, context: Any, values: list[Any]) -> None:
        values.append(self.plain(value, context))

    def load(self, values: Iterator[Any], context: Any) -> Any:
        return self.value(next(values), context)

    def plain(self, value: Any, _context: Any) -> Any:
        """Return the plain value that stands for a value."""
        return value

    def value(self, plain: Any, context: Any) -> Any:
        """Return the value that a plain value stands for; raises ValueError if it is none."""
        raise NotImplementedError


class _Plain(_Single):
    """Plain values: of a type that a letter names (:func:`.fields`), integers within bounds."""

    def __init__(self, letter: str, least: int | None = None, most: int = 0) -> None:
        self._letter = letter
        self._least = least
        self._most = most

    def value(self, plain: Any, _context: Any) -> Any:
        if not is_of_kind(plain, self._letter) or (
            self._least is not None and not self._least <= plain <= self._most
        ):
            bounds = "" if self._least is None else f" from {self._least} to {self._most}"
            raise ValueError(f"no value of kind {self._letter}{bounds}")
        return plain


class _Wide(_Single):
    def plain(self, value: Any, _context: Any) -> Any:
        return wide(value)

    def value(self, plain: Any, _context: Any) -> Any:
        return from_wide(plain)


class _Buffer(_Single):
    """Bytes in an object of another type."""

    def __init__(self, collect: Callable[[bytes], Any]) -> None:
        self._collect = collect

    def plain(self, value: Any, _context: Any) -> Any:
        return bytes(value)

    def value(self, plain: Any, _context: Any) -> Any:
        return self._collect(_KINDS["bytes"].value(plain, None))


class _Optional(_Single):
    def __init__(self, kind: _Single) -> None:
        self._kind = kind

    def plain(self, value: Any, context: Any) -> Any:
        return None if value is None else self._kind.plain(value, context)

    def value(self, plain: Any, context: Any) -> Any:
        return None if plain is None else self._kind.value(plain, context)


class _Flat(_Kind):
    """Collections whose values are saved like attributes of their own."""

    def __init__(self, kinds: list[_Kind], collect: Callable[[list[Any]], Any]) -> None:
        self._width = sum([kind.width for kind in kinds])
        self._kinds = kinds
        self._collect = collect

    @property
    def width(self) -> int:
        return self._width

    def save(self, value: Any, context: Any, values: list[Any]) -> None:
        for kind, each in zip(self._kinds, value, strict=True):
            kind.save(each, context, values)

    def load(self, values: Iterator[Any], context: Any) -> Any:
        return self._collect([kind.load(values, context) for kind in self._kinds])


class _Values(_Single):
    """Tuples of a value of each of some kinds."""

    def __init__(self, kinds: list[_Kind]) -> None:
        self._values = _Flat(kinds, tuple)

    def plain(self, value: Any, context: Any) -> Any:
        values: list[Any] = []
        self._values.save(value, context, values)
        return tuple(values)

    def value(self, plain: Any, context: Any) -> Any:
        if type(plain) is not tuple or len(plain) != self._values.width:
            raise ValueError(f"no {self._values.width} values")
        return self._values.load(iter(plain), context)


class _Items(_Single):
    """Collections of any length."""

    def __init__(self, kind: _Single, collect: Callable[[list[Any]], Any]) -> None:
        self._kind = kind
        self._collect = collect

    def plain(self, value: Any, context: Any) -> Any:
        return tuple([self._kind.plain(each, context) for each in value])

    def value(self, plain: Any, context: Any) -> Any:
        if type(plain) is not tuple:
            raise ValueError("no tuple")
        return self._collect([self._kind.value(each, context) for each in plain])


class _Sorted(_Items):
    """Sets, whose values are saved in order."""

    def plain(self, value: Any, context: Any) -> Any:
        return super().plain(sorted(value), context)


class _Mapping(_Items):
    """Dictionaries, as tuples of key and value."""

    def plain(self, value: Any, context: Any) -> Any:
        return super().plain(value.items(), context)

    def value(self, plain: Any, context: Any) -> Any:
        loaded = super().value(plain, context)
        if len(loaded) < len(plain):
            raise ValueError("two values of one key")
        return loaded


class _Constants(_Single):
    """Members of an enumeration, as their values."""

    def __init__(self, kind: type[Enum]) -> None:
        self._kind = kind

    def plain(self, value: Any, _context: Any) -> Any:
        return value.value

    def value(self, plain: Any, _context: Any) -> Any:
        return self._kind(plain)


class _Object(_Single):
    """Objects that are made when they are loaded."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    def plain(self, value: Any, context: Any) -> Any:
        return save(value, context)

    def value(self, plain: Any, context: Any) -> Any:
        return make(self._kind, plain, context)


class _FlatObject(_Kind):
    """Named tuples whose values are saved like attributes of their own."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind
        self._layout: Saved = kind._SAVED

    @property
    def width(self) -> int:
        return sum([each.width for each in self._layout.attributes])

    def save(self, value: Any, context: Any, values: list[Any]) -> None:
        self._layout.save(value, context, values)

    def load(self, values: Iterator[Any], context: Any) -> Any:
        return _made(self._kind, self._layout, self._layout.attributes, values, context)


class _InPlace(_Kind):
    """Objects that are there when they are loaded."""

    def __init__(self, base: type[Any] | None = None, times: int = 0) -> None:
        """``base`` is the class whose attributes are loaded; None for that of the object."""
        self._base = base
        self._times = times
        self.may_end = False
        """The object may have become None."""

    @property
    def width(self) -> int:
        return max(self._times, 1)

    def save(self, value: Any, context: Any, values: list[Any]) -> None:
        if self._base is not None:
            own: list[Any] = []
            self._base._SAVED.save(value, context, own)
            values.append(tuple(own))
        elif self._times:
            values += [save(each, context) for each in value]
        else:
            values.append(None if value is None else save(value, context))

    def load_into(self, value: Any, values: Iterator[Any], context: Any) -> bool:
        """Load the state of an object.

        Returns:
            True if the object becomes None.

        Raises:
            ValueError: there is a state without an object, or the state is any other value.
        """
        for each in value if self._times else (value,):
            state = next(values)
            if state is None and self.may_end:
                return True
            if self._base is not None:
                layout: Saved = self._base._SAVED
                attributes, own = layout.of_state(state)
                layout.load(value, attributes, own, context)
            elif each is not None:
                load(each, state, context)
            elif state is not None:
                raise ValueError("an object that only one of two runs has")
        return False

    def load(self, _values: Iterator[Any], _context: Any) -> Any:
        return None


_KINDS: dict[str, _Single] = {
    "bool": _Plain("b"),
    "bytearray": _Buffer(bytearray),
    "bytes": _Plain("y"),
    "count": _Plain("n"),
    "end": _Plain("i", 0, 1),
    "i16": _Plain("i", -(1 << 15), (1 << 15) - 1),
    "i32": _Plain("i", -(1 << 31), (1 << 31) - 1),
    "int": _Plain("i"),
    "memoryview": _Buffer(memoryview),
    "str": _Plain("s"),
    "u16": _Plain("i", 0, (1 << 16) - 1),
    "u32": _Plain("i", 0, (1 << 32) - 1),
    "wide": _Wide(),
}
_NUMBERED = _Items(_Values([_KINDS["count"], _Plain("*")]), tuple)
_COLLECTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "array": lambda values: array("q", values),
    "deque": deque,
    "list": list,
    "tuple": tuple,
}


class _KindReader:
    """Reads the text of an attribute."""

    def __init__(self, text: str, classes: dict[str, type]) -> None:
        self._name, _, kind = text.partition(":")
        self._tokens = re.findall(_WORD_OR_SIGN, kind)
        self._classes = classes

    def attribute(self) -> _Attribute:
        """Return the attribute."""
        kind = self._in_place() or self._kind()
        return _Attribute(self._name, kind)

    def _in_place(self) -> _InPlace | None:
        if self._name == "self":
            return _InPlace(self._classes[self._tokens[0]])
        if "here" not in self._tokens:
            return None
        kind = _InPlace(times=int(self._tokens[0]) if self._tokens[0].isdigit() else 0)
        kind.may_end = self._tokens[-1] == "?"
        return kind

    def _is_next(self, token: str) -> bool:
        """Pass a token, if it is the next."""
        if self._tokens[:1] != [token]:
            return False
        del self._tokens[0]
        return True

    def _kind(self) -> _Kind:
        if self._is_next("*"):
            if self._is_next("("):
                return _Flat(self._kinds(")"), tuple)
            return _FlatObject(self._classes[self._tokens.pop(0)])
        word = self._tokens.pop(0)
        if word.isdigit():
            del self._tokens[0]
            return _Flat([self._kind()] * int(word), list)
        kind = self._single(word)
        return _Optional(kind) if self._is_next("?") else kind

    def _single(self, word: str) -> _Single:
        if word == "(":
            return _Values(self._kinds(")"))
        if self._is_next("["):
            return self._collection(word, self._kinds("]"))
        kind = self._classes.get(word)
        if kind is None:
            return _KINDS[word]
        return _Constants(kind) if issubclass(kind, Enum) else _Object(kind)

    @staticmethod
    def _collection(word: str, kinds: list[Any]) -> _Single:
        if word == "set":
            return _Sorted(kinds[0], set)
        if len(kinds) > 1:
            return _Mapping(_Values(kinds), OrderedDict if word == "ordered" else dict)
        return _Items(kinds[0], dict.fromkeys if word == "dict" else _COLLECTIONS[word])

    def _kinds(self, end: str) -> list[_Kind]:
        kinds = [self._kind()]
        while self._tokens.pop(0) != end:
            kinds.append(self._kind())
        return kinds
