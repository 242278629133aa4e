"""How deep tuples are nested in a pickle, found out before anything is made of it.

In: a pickle of protocol 4 or 5. Out: nothing, or ValueError. This module must not know what the
values are for.

The hash of a tuple is that of its items, and theirs in turn, for which the interpreter uses its
stack and counts nothing: a key of a dictionary that is nested deeply enough is its end. All else
that nests (lists, dictionaries, values with attributes) is made, compared and let go of without.

So the opcodes are followed with a stack of depths in place of values: that of a tuple is one more
than that of its deepest item, and 0 for whatever is none. An opcode that is not written for values
that are frozen is refused.
"""

from __future__ import annotations

import pickle as p
from itertools import repeat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["MOST_DEEP", "check_depth"]

MOST_DEEP: Final = 64
"""What is frozen has 5 levels."""
_HARMLESS: Final = 4_000
"""So many levels take a quarter of a megabyte of the stack (65 bytes each, measured)."""
_MAKE_TUPLES: Final = (p.TUPLE1, p.TUPLE2, p.TUPLE3, p.TUPLE, p.REDUCE, p.NEWOBJ)

_CONSTANTS: Final = dict.fromkeys(
    b"".join((p.NONE, p.NEWTRUE, p.NEWFALSE, p.EMPTY_LIST, p.EMPTY_DICT, p.EMPTY_SET)), 0
)
"""Opcodes that push a value, with how many bytes of it follow."""
_NUMBERS: Final = {p.BININT1[0]: 1, p.BININT2[0]: 2, p.BININT[0]: 4, p.BINFLOAT[0]: 8}
_PUSHED: Final = _CONSTANTS | _NUMBERS
_SIZED: Final = {
    **dict(zip(p.LONG1 + p.SHORT_BINBYTES + p.SHORT_BINUNICODE, repeat(1), strict=False)),
    **dict(zip(p.LONG4 + p.BINBYTES + p.BINUNICODE, repeat(4), strict=False)),
    **dict(zip(p.BINBYTES8 + p.BINUNICODE8 + p.BYTEARRAY8, repeat(8), strict=False)),
}
"""Opcodes that push what comes after its size, with how many bytes that size takes."""
_TUPLES: Final = {p.TUPLE1[0]: 1, p.TUPLE2[0]: 2, p.TUPLE3[0]: 3}
_GOT: Final = {p.BINGET[0]: 1, p.LONG_BINGET[0]: 4}
_TAKES: Final = {p.APPEND[0]: 1, p.SETITEM[0]: 2, p.BUILD[0]: 1, p.POP[0]: 1}
_SKIPPED: Final = {p.PROTO[0]: 1, p.FRAME[0]: 8}
_STOP: Final = p.STOP[0]


def check_depth(data: bytes) -> None:
    """Raise ValueError where tuples nest too deeply; IndexError too where opcodes make no sense.

    Where few bytes could make a tuple, few levels can be made of them, and nothing is followed:
    that takes several times as long as reading.
    """
    if sum(map(data.count, _MAKE_TUPLES)) > _HARMLESS:
        _Depths(data).follow()


class _Depths:
    """Follows opcodes; see the module."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        """Index of the byte after the opcode."""
        self._stack: list[int] = []
        self._marks: list[int] = []
        self._memo: list[int] = []

    def follow(self) -> None:
        """Go through to the end."""
        data, steps = self._data, _STEPS
        while (opcode := data[self._at]) != _STOP:
            self._at += 1
            step = steps.get(opcode)
            if step is None:
                raise ValueError(f"opcode {opcode} at {self._at - 1}")
            step(self, opcode)

    def push(self, opcode: int) -> None:
        """Push a value of a known size."""
        self._stack.append(0)
        self._at += _PUSHED[opcode]

    def push_sized(self, opcode: int) -> None:
        """Push a value that comes after its size."""
        self._stack.append(0)
        size = self._number(_SIZED[opcode])
        self._at += size

    def push_global(self, _: int) -> None:
        """Push what two lines name."""
        self._stack.append(0)
        self._at = self._data.index(b"\n", self._data.index(b"\n", self._at) + 1) + 1

    def push_empty_tuple(self, _: int) -> None:
        """Push a tuple of nothing."""
        self._stack.append(1)

    def memoize(self, _: int) -> None:
        """Remember the last value."""
        self._memo.append(self._stack[-1])

    def get(self, opcode: int) -> None:
        """Push what was remembered."""
        self._stack.append(self._memo[self._number(_GOT[opcode])])

    def make_tuple(self, opcode: int) -> None:
        """Make a tuple of one to three."""
        self._push_tuple(self._pop(_TUPLES[opcode]))

    def make_marked_tuple(self, _: int) -> None:
        """Make a tuple of all behind the mark."""
        self._push_tuple(self._pop_to_mark())

    def make_frozenset(self, _: int) -> None:
        """Make a set of all behind the mark; it keeps the hashes of its items."""
        self._pop_to_mark()
        self._stack.append(0)

    def make_named(self, _: int) -> None:
        """Push what is named by two texts."""
        self._pop(2)
        self._stack.append(0)

    def call(self, _: int) -> None:
        """Call; a tuple with names is as deep as the arguments that it is made of, at most."""
        self._stack.append(max(self._pop(2)))

    def mark(self, _: int) -> None:
        """Set a mark."""
        self._marks.append(len(self._stack))

    def take(self, opcode: int) -> None:
        """Let a value take one or two, or forget one."""
        self._pop(_TAKES[opcode])

    def take_to_mark(self, _: int) -> None:
        """Let a value take all behind the mark, or forget those."""
        self._pop_to_mark()

    def skip(self, opcode: int) -> None:
        """Pass what is about the pickle itself."""
        self._at += _SKIPPED[opcode]

    def _number(self, size: int) -> int:
        found = int.from_bytes(self._data[self._at : self._at + size], "little")
        self._at += size
        return found

    def _pop(self, count: int) -> list[int]:
        first = len(self._stack) - count
        if first < 0 or count < 0:
            raise IndexError("nothing on the stack")
        found = self._stack[first:]
        del self._stack[first:]
        return found

    def _pop_to_mark(self) -> list[int]:
        return self._pop(len(self._stack) - self._marks.pop())

    def _push_tuple(self, items: list[int]) -> None:
        depth = 1 + max(items, default=0)
        if depth > MOST_DEEP:
            raise ValueError(f"tuples within tuples, {depth} deep")
        self._stack.append(depth)


_STEPS: Final[Mapping[int, Callable[[_Depths, int], None]]] = {
    **dict.fromkeys(_PUSHED, _Depths.push),
    **dict.fromkeys(_SIZED, _Depths.push_sized),
    **dict.fromkeys(_GOT, _Depths.get),
    **dict.fromkeys(_TUPLES, _Depths.make_tuple),
    **dict.fromkeys(_TAKES, _Depths.take),
    **dict.fromkeys(_SKIPPED, _Depths.skip),
    **dict.fromkeys(p.APPENDS + p.SETITEMS + p.ADDITEMS + p.POP_MARK, _Depths.take_to_mark),
    **dict.fromkeys(p.REDUCE + p.NEWOBJ, _Depths.call),
    p.MARK[0]: _Depths.mark,
    p.TUPLE[0]: _Depths.make_marked_tuple,
    p.FROZENSET[0]: _Depths.make_frozenset,
    p.EMPTY_TUPLE[0]: _Depths.push_empty_tuple,
    p.MEMOIZE[0]: _Depths.memoize,
    p.GLOBAL[0]: _Depths.push_global,
    p.STACK_GLOBAL[0]: _Depths.make_named,
}
