"""Arrow arrays from numbers, texts and bytes.

In: values without null. Out: ``pyarrow.Array``.

``pyarrow.array`` would import pandas if that is installed: a quarter of a second of CPU and 50 MB
in each process.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["array_of", "arrays_of"]

_MAX_BYTES = (1 << 31) - 1


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an array of an integer type, ``bool``, ``string`` or ``binary``.

    Numbers may be an array of NumPy.

    Raises:
        ValueError: texts or bytes have 2 GiB or more together.
        UnicodeEncodeError: a text is not valid Unicode.
    """
    if pa.types.is_string(kind):
        return _of_bytes([text.encode() for text in values], kind)
    if pa.types.is_binary(kind):
        return _of_bytes(values, kind)
    numbers = np.ascontiguousarray(values, kind.to_pandas_dtype())
    data = np.packbits(numbers, bitorder="little") if pa.types.is_boolean(kind) else numbers
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(data)])


def arrays_of(columns: Iterable[Sequence[Any]], fields: Iterable[pa.Field]) -> list[pa.Array]:
    """Return columns as arrays of the types of fields; see :func:`array_of`."""
    return [array_of(values, field.type) for values, field in zip(columns, fields, strict=True)]


def _of_bytes(values: Sequence[bytes | memoryview], kind: pa.DataType) -> pa.Array:
    ends = [0, *accumulate(map(len, values))]
    if ends[-1] > _MAX_BYTES:
        raise ValueError("texts or bytes of 2 GiB in one column")
    data = values[0] if len(values) == 1 else b"".join(values)
    buffers = [None, pa.py_buffer(np.array(ends, np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(values), buffers)
