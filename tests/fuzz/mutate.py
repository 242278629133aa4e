"""Makes hostile inputs out of valid ones: deterministic for a seed, a few microseconds each.

In: seeds and their :class:`~tests.fuzz.shapes.Shape`. Out: one input after the other.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

from tests.fuzz.shapes import BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fuzz.shapes import Shape

_BOUNDARY_BYTES = bytes((0, 1, 2, 0x7F, 0x80, 0x81, 0xFE, 0xFF))
_INT16 = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF)
_INT32 = (
    *_INT16[:-1],
    0xFFFF,
    0x10000,
    100 << 20,
    0x20000000,
    0x7FFFFFFE,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFE,
    0xFFFFFFFF,
)
_INT64 = (
    0,
    1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 53) + 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)
_NUMBERS = (
    *(struct.pack(order, value) for value in _INT16 for order in (">H", "<H")),
    *(struct.pack(order, value) for value in _INT32 for order in (">I", "<I")),
    *(struct.pack(">Q", value) for value in _INT64),
)
_VARINTS = (
    b"\x80\x00",
    b"\x80\x80\x80\x80\x00",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xfe\xff\xff\xff\x0f",
)
_LONGEST_PIECE_BYTES = 64
_MAX_STEPS = 4
_PARTS_RATE = 0.3
"""How often whole parts are moved before bytes are changed, if a seed has several parts."""


class Mutator:
    """A stream of inputs that never ends; each is a seed with up to five changes.

    Inputs are ``bytes`` of at most ``most_bytes``.
    """

    def __init__(
        self,
        seeds: Sequence[bytes],
        *,
        seed: int,
        most_bytes: int,
        shape: Shape = BYTES,
    ) -> None:
        self._random = random.Random(seed)
        self._float = self._random.random
        self._seeds = [found[:most_bytes] for found in seeds] or [b""]
        self._parts: dict[int, list[bytes]] = {}
        self._most = most_bytes
        self._shape = shape
        self._steps = (
            self._flip,
            self._set_byte,
            self._set_number,
            self._set_number,
            self._set_varint,
            self._near_length,
            self._delete,
            self._double,
            self._splice,
            self._cut,
            self._extend,
            self._random_bytes,
            self._tile,
        )

    def next(self) -> bytes:
        """Make the next input."""
        index = self._below(len(self._seeds))
        parts = self._parts_of(index)
        if len(parts) > 1 and self._float() < _PARTS_RATE:
            data = self._moved(list(parts))
        elif len(parts) > 1 and self._float() < _PARTS_RATE:
            data = self._inside(list(parts))
        else:
            data = bytearray(self._seeds[index])
            self._change(data)
        if len(data) > self._most:
            del data[self._most :]
        return bytes(data)

    # -- parts ------------------------------------------------------------------------------------

    def _parts_of(self, index: int) -> list[bytes]:
        if self._shape is BYTES:
            return []
        parts = self._parts.get(index)
        if parts is None:
            parts = self._shape.split(self._seeds[index]) or [b""]
            self._parts[index] = parts
        return parts

    def _moved(self, parts: list[bytes]) -> bytearray:
        """Delete, double, swap, borrow and cut parts; the first often has the format."""
        for _ in range(1 + self._below(_MAX_STEPS)):
            at = self._below(len(parts))
            kind = self._below(6)
            if kind == 0 and len(parts) > 1:
                del parts[at]
            elif kind == 1:
                parts.insert(self._below(len(parts) + 1), parts[at])
            elif kind == 2:
                other = self._below(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            elif kind == 3:
                others = self._parts_of(self._below(len(self._seeds)))
                parts.insert(at, others[self._below(len(others))])
            elif kind == 4:
                parts[at] = self._shape.mend(parts[0], parts[at][: self._below(len(parts[at]) + 1)])
            else:
                parts[at:] = parts[at : at + 4] * (1 + self._below(8))
        data = bytearray().join(parts)
        if self._float() < 0.3:
            self._change(data)
        return data

    def _inside(self, parts: list[bytes]) -> bytearray:
        """Change bytes in some parts and correct their lengths."""
        for _ in range(1 + self._below(3)):
            at = self._below(len(parts))
            part = bytearray(parts[at])
            self._change(part)
            parts[at] = self._shape.mend(parts[0], bytes(part))
        return bytearray().join(parts)

    # -- bytes ------------------------------------------------------------------------------------

    def _below(self, end: int) -> int:
        """Return a number from 0 to ``end`` - 1, or 0 if ``end`` is 0."""
        return int(self._float() * end)

    def _change(self, data: bytearray) -> None:
        for _ in range(1 + self._below(_MAX_STEPS)):
            if not data:
                data += b"\0"
            self._steps[self._below(len(self._steps))](data)

    def _flip(self, data: bytearray) -> None:
        data[self._below(len(data))] ^= 1 << self._below(8)

    def _set_byte(self, data: bytearray) -> None:
        data[self._below(len(data))] = _BOUNDARY_BYTES[self._below(len(_BOUNDARY_BYTES))]

    def _set_number(self, data: bytearray) -> None:
        number = _NUMBERS[self._below(len(_NUMBERS))]
        at = self._below(len(data))
        data[at : at + len(number)] = number

    def _set_varint(self, data: bytearray) -> None:
        at = self._below(len(data))
        data[at : at + 1] = _VARINTS[self._below(len(_VARINTS))]

    def _near_length(self, data: bytearray) -> None:
        """Set a length or a count to about the bytes that are left, or change it a little."""
        at = self._below(len(data))
        width = (1, 2, 4)[self._below(3)]
        if self._float() < 0.5:
            value = len(data) - at - self._below(9)
        else:
            value = int.from_bytes(data[at : at + width], "big") + self._below(9) - 4
        data[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")

    def _delete(self, data: bytearray) -> None:
        at = self._below(len(data))
        del data[at : at + 1 + self._below(_LONGEST_PIECE_BYTES)]

    def _double(self, data: bytearray) -> None:
        at = self._below(len(data))
        data[at:at] = data[at : at + 1 + self._below(_LONGEST_PIECE_BYTES)]

    def _splice(self, data: bytearray) -> None:
        """Continue with the bytes of another seed."""
        other = self._seeds[self._below(len(self._seeds))]
        at = self._below(len(data))
        start = at if self._float() < 0.5 else self._below(len(other))
        data[at:] = other[start:]

    def _cut(self, data: bytearray) -> None:
        del data[self._below(len(data)) :]

    def _extend(self, data: bytearray) -> None:
        data += self._random.randbytes(1 + self._below(_LONGEST_PIECE_BYTES))

    def _random_bytes(self, data: bytearray) -> None:
        at = self._below(len(data))
        length = 1 + self._below(8)
        data[at : at + length] = self._random.randbytes(length)

    def _tile(self, data: bytearray) -> None:
        """Repeat a piece; rarely up to the longest input, to find what grows."""
        at = self._below(len(data))
        length = 1 + self._below(_LONGEST_PIECE_BYTES)
        times = 1 + self._below(16)
        if self._float() < 0.02:
            times = self._most // length
        data[at : at + length] = data[at : at + length] * times
