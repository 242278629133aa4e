"""The state of a run as bytes, between two batches of packets, and taken up again from them.

In: stages and a row maker between two batches. Out: bytes; and new stages and a new row maker that
go on as if there had been no break. This module must not know where bytes are kept. It is the one
module that knows what others keep to themselves.

What is in the bytes is what open connections need: streams with what is held back behind a hole,
frames that have begun, requests without an answer, log ends, fetch sessions; and the counters.
What is code or is shared (readers, decoders, catalogs, functions) is not: it is linked to that of
the new stages. Names of topics are whoever's who made the row maker.

The bytes are a line of text (format, version, size, checksum), then the values, compressed. What
they can do when they are read is in :mod:`kanalyze.frozen_values`: nothing.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING, Any, Final

from kanalyze.analysis.sessions import FetchSessions
from kanalyze.analysis.waits import LogEnds
from kanalyze.connection.tracker import ConnectionTracker
from kanalyze.errors import KanalyzeError
from kanalyze.frozen_values import BadBytesError, from_bytes, to_bytes
from kanalyze.named import NamedTuple
from kanalyze.net.reassembly import Reassembler
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kanalyze.analysis.row_builder import RowBuilder
    from kanalyze.stages import Stages

__all__ = ["StateError", "freeze", "thaw"]

FORMAT: Final = 4
"""To be raised when an attribute of what is frozen changes between two versions of equal name."""
MOST_BYTES: Final = 4 << 30
"""Of a state before it is compressed; stages hold 1 GiB where nobody says otherwise."""

_MAGIC: Final = b"kanalyze-state"
_LONGEST_LINE_BYTES: Final = 200
_DIGEST_BYTES: Final = 16
_COMPRESSION_LEVEL: Final = 1


class StateError(KanalyzeError):
    """Bytes that no run can be taken up from."""


class _State(NamedTuple):
    """All that is in the bytes."""

    settings: tuple[Any, ...]
    reassembler: Reassembler
    tracker: ConnectionTracker
    log_ends: LogEnds | None
    """None without a row maker, as the next."""
    sessions: FetchSessions | None


def freeze(stages: Stages, row_maker: RowBuilder | None = None) -> bytes:
    """Return the state of a run between two batches.

    Args:
        stages: fed with a batch, and what that brought was dealt with: all rows made.
        row_maker: which made rows of all that the stages brought; None where there is none.

    Returns:
        Bytes of their own, for :func:`thaw`. What the row maker knows of connections that have
        ended is not in them. An idle connection takes some 200 bytes, the memory of packets that
        may come twice up to 35 kB.
    """
    tracker = stages._tracker
    log_ends = sessions = None
    if row_maker is not None:
        still_open = {state.tcp.serial for state in stages._reassembler._open.values()}
        log_ends = _log_ends_of(row_maker.log_ends, still_open)
        sessions = _sessions_of(row_maker._sessions, still_open)
    state = _State(_settings(stages), stages._reassembler, tracker, log_ends, sessions)
    return _sealed(to_bytes(tuple(state), _shared_parts(tracker)))


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
    state = _loaded(_opened(data), _shared_parts(stages._tracker))
    if state.settings != _settings(stages):
        raise StateError("the state is that of a run with other settings: run without it")
    if (row_maker is None) != (state.log_ends is None):
        raise StateError("the state is that of a run with other rows: run without it")
    stages._reassembler, stages._tracker = state.reassembler, state.tracker
    if row_maker is not None and state.log_ends is not None and state.sessions is not None:
        row_maker.log_ends, row_maker._sessions = state.log_ends, state.sessions


def _settings(stages: Stages) -> tuple[Any, ...]:
    """Return what has to be the same in both runs, as plain values."""
    reassembler, tracker = stages._reassembler, stages._tracker
    share = reassembler._share
    return (
        (share.index, share.count),
        tuple(reassembler._limits),
        reassembler._timed is not None,
        reassembler._notes._most,
        (tracker._most_undecided_bytes, tracker._most_kafka_bytes),
        tracker._ended is not None,
        tracker._is_broker is not None,
        tracker._keep is not None,
    )


def _shared_parts(tracker: ConnectionTracker) -> dict[str, Any]:
    """Return what is linked and not copied, by name."""
    return {
        "reader": tracker._reader,
        "judge": tracker._judge,
        "locate": tracker._locate,
        "is_broker": tracker._is_broker,
        "keep": tracker._keep,
    }


def _log_ends_of(log_ends: LogEnds, connections: Collection[int]) -> LogEnds:
    """Return the log ends that some connections told; nobody will ask for the others."""
    kept = LogEnds()
    kept._ends = {log: ends for log, ends in log_ends._ends.items() if log[0] in connections}  # type: ignore[index]
    kept._fetches = {key: told for key, told in log_ends._fetches.items() if key in connections}
    kept._emptied = {key: ns for key, ns in log_ends._emptied.items() if key[0] in connections}  # type: ignore[index]
    return kept


def _sessions_of(sessions: FetchSessions, connections: Collection[int]) -> FetchSessions:
    """Return the sessions of some connections."""
    kept = FetchSessions(
        most_sessions=sessions._most_sessions, most_partitions=sessions._most_partitions
    )
    for key, session in sessions._sessions.items():
        if key[0] in connections:
            kept._sessions[key] = session
            kept._partitions += len(session)
    return kept


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
    """Return the pickle; raises StateError where that is not what was sealed."""
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


def _loaded(plain: bytes, shared: Mapping[str, Any]) -> _State:
    try:
        state = _State(*from_bytes(plain, shared))
        _check_types(state)
    except (BadBytesError, TypeError) as error:
        raise _damaged() from error
    return state


def _check_types(state: _State) -> None:
    kinds = (tuple, Reassembler, ConnectionTracker, LogEnds | None, FetchSessions | None)
    for value, kind in zip(state, kinds, strict=True):
        if not isinstance(value, kind):
            raise TypeError(f"a {type(value).__name__} at the wrong place")
