"""The state of a run as bytes, between two batches of packets, and taken up again from them.

In: stages and a row maker between two batches. Out: bytes; and new stages and a new row maker that
go on as if there had been no break. This module must not know where bytes are kept, nor what of a
stage is its state: each class says that of itself (:data:`kanalyze.common.plain_values.State`).

What is in the bytes is what open connections need: streams with what is held back behind a hole,
frames that have begun, requests without an answer, log ends, fetch sessions; and the counters.
What is code or is shared (readers, decoders, catalogs, functions) is not: it is that of the new
stages. Names of topics are whoever's who made the row maker.

The bytes are a line of text (format, version, size, checksum), then plain values, compressed.
"""

from __future__ import annotations

import gc
import hashlib
import sys
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.plain_values import fields, from_bytes, to_bytes
from kanalyze.errors import KanalyzeError
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.runtime.stages import Stages
    from kanalyze.tables.requests.row_assembler import RowBuilder

__all__ = ["StateError", "freeze", "thaw"]

FORMAT: Final = 7
"""To be raised when what a class says of itself changes between two versions of equal name."""
MOST_BYTES: Final = 4 << 30
"""Of a state before it is compressed; stages hold 1 GiB where nobody says otherwise."""

_MAGIC: Final = b"kanalyze-state"
_LONGEST_LINE_BYTES: Final = 200
_DIGEST_BYTES: Final = 16
_COMPRESSION_LEVEL: Final = 1
_NO_STATE: Final = (ValueError, TypeError, OverflowError)
"""What those raise that read a state, where it is none."""


class StateError(KanalyzeError):
    """Bytes that no run can be taken up from."""


def freeze(stages: Stages, row_maker: RowBuilder | None = None) -> bytes:
    """Return the state of a run between two batches.

    Args:
        stages: fed with a batch, and what that brought was dealt with: all rows made.
        row_maker: which made rows of all that the stages brought; None where there is none.

    Returns:
        Bytes of their own, for :func:`thaw`. What the row maker knows of connections that have
        ended is not in them. An idle connection takes some 100 bytes, the memory of packets that
        may come twice up to 35 kB.
    """
    with _no_collection():
        still_open = {tcp.serial for tcp in stages.open_tcp()}
        known = None if row_maker is None else row_maker.state(still_open)
        return _sealed(to_bytes((_settings(stages), stages.state(), known)))


def thaw(data: bytes, stages: Stages, row_maker: RowBuilder | None = None) -> None:
    """Let new stages and a new row maker go on where those that were frozen stood.

    Args:
        data: what :func:`freeze` returned.
        stages: that were fed nothing, made with the same arguments. Reader, catalog and functions
            go on being theirs.
        row_maker: that made no row; None where none was frozen. Its names of topics are to be
            those of the one that was frozen.

    Raises:
        StateError: these are no such bytes, they are damaged, another version wrote them, or the
            run that was frozen had other arguments. Nothing was changed then.
    """
    plain = _opened(data)
    try:
        with _no_collection():
            settings, state, known = fields(from_bytes(plain), "ttT")
            _check_settings(settings, _settings(stages))
            if (row_maker is None) != (known is None):
                raise StateError("the state is that of a run with other rows: run without it")
            parts = stages.parts_from_state(state)
            known_of_rows = None if row_maker is None else row_maker.known_from_state(known)
    except _NO_STATE as error:
        raise _damaged() from error
    stages.take_up(parts)
    if row_maker is not None and known_of_rows is not None:
        row_maker.take_up(known_of_rows)


def _settings(stages: Stages) -> State:
    """Return what has to be the same in both runs: columns are kept as the machine has them."""
    return sys.byteorder, stages.settings


def _check_settings(theirs: Any, ours: State) -> None:
    if theirs != ours:
        raise StateError("the state is that of a run with other settings: run without it")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Have nobody look for garbage meanwhile: that took two thirds of the time, and found none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# -- the line and the checksum --------------------------------------------------------------------


def _sealed(plain: bytes) -> bytes:
    packed = zlib.compress(plain, _COMPRESSION_LEVEL)
    line = b"%s %d %s %d " % (_MAGIC, FORMAT, __version__.encode(), len(plain))
    return b"%s%s\n%s" % (line, _digest(line, packed), packed)


def _digest(line: bytes, packed: bytes) -> bytes:
    digest = hashlib.blake2b(line, digest_size=_DIGEST_BYTES)
    digest.update(packed)
    return digest.hexdigest().encode()


def _opened(data: bytes) -> bytes:
    """Return the plain values as bytes; raises StateError where that is not what was sealed."""
    end = data.find(b"\n", 0, _LONGEST_LINE_BYTES)
    words = data[: max(end, 0)].split(b" ")
    if len(words) != 5 or words[0] != _MAGIC:
        raise StateError("this is no state of a run of kanalyze")
    if words[1:3] != [b"%d" % FORMAT, __version__.encode()]:
        raise StateError(
            f"the state was written by another version of kanalyze than {__version__}: "
            "run without it"
        )
    packed = data[end + 1 :]
    if words[4] != _digest(data[: end - 2 * _DIGEST_BYTES], packed):
        raise _damaged()
    size = int(words[3]) if words[3].isdigit() else MOST_BYTES + 1
    if size > MOST_BYTES:
        raise _damaged()
    decoder = zlib.decompressobj()
    try:
        plain = decoder.decompress(packed, size + 1)
    except zlib.error as error:
        raise _damaged() from error
    if len(plain) != size:
        raise _damaged()
    return plain


def _damaged() -> StateError:
    return StateError("the state is damaged: run without it")
