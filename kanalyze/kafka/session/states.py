"""The states of one direction of a Kafka connection, and what leads from one to another.

In: what happened to a stream. Out: its state.

Nearly every frame of nearly every connection comes in ``IN_SYNC``, where it is read without more
ado. In any other state it goes through the slow path (``SlowPath`` in ``exchange_builder.py``).
What bytes from the wire do in a state that does not expect them is an anomaly, and no event here:
an event without a row in :data:`TRANSITIONS` is an error of the code.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class StreamState(IntEnum):
    """What the next complete frame of a direction may be."""

    IN_SYNC = 0
    """A message."""
    SUSPECT = 1
    """A message, though its first bytes were reported as those of a token."""
    LOGIN = 2
    """A message or a raw token: a login without SaslAuthenticate is on."""
    LOST = 3
    """The first one after bytes that were lost, or that made no sense."""
    LOST_IN_LOGIN = 4
    """Both: bytes were lost, and a login is on."""
    CLOSED = 5
    """No frame comes any more."""


class StreamEvent(IntEnum):
    """What happens to a direction."""

    SYNC_LOST = 0
    """Bytes are missing, or it is not known where the next frame begins."""
    READ = 1
    """A complete frame has come, and no loss is known between it and the next one."""
    SUSPECTED = 2
    """An incomplete frame was reported, as it may be a token."""
    LOGIN_BEGAN = 3
    """From now on raw tokens may come."""
    LOGIN_ENDED = 4
    """No raw token comes any more."""
    ENDED = 5
    """The connection has ended."""


_S = StreamState
_ROWS = {  # SYNC_LOST, READ, SUSPECTED, LOGIN_BEGAN, LOGIN_ENDED, ENDED
    _S.IN_SYNC: (_S.LOST, None, _S.SUSPECT, _S.LOGIN, None, _S.CLOSED),
    _S.SUSPECT: (_S.LOST, _S.IN_SYNC, _S.SUSPECT, _S.LOGIN, None, _S.CLOSED),
    # A frame of this direction may be incomplete, and reported, when the other one ends the login.
    _S.LOGIN: (_S.LOST_IN_LOGIN, _S.LOGIN, _S.LOGIN, None, _S.SUSPECT, _S.CLOSED),
    _S.LOST: (_S.LOST, _S.IN_SYNC, _S.LOST, _S.LOST_IN_LOGIN, None, _S.CLOSED),
    _S.LOST_IN_LOGIN: (_S.LOST_IN_LOGIN, _S.LOGIN, _S.LOST_IN_LOGIN, None, _S.LOST, _S.CLOSED),
    _S.CLOSED: (None, None, None, None, None, None),
}
TRANSITIONS: Final[Mapping[int, Mapping[StreamEvent, StreamState]]] = {
    state: {event: end for event, end in zip(StreamEvent, ends, strict=True) if end is not None}
    for state, ends in _ROWS.items()
}


_AFTER = tuple([_ROWS[state] for state in StreamState])


def after(state: int, event: StreamEvent) -> StreamState:
    """Return the state that an event leads to; raises KeyError if none is expected."""
    end = _AFTER[state][event]  # a tuple takes an enumeration as an index, and calls no hash of it
    if end is None:
        raise KeyError(state, event)
    return end
