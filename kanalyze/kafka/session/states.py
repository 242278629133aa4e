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

__all__ = ["TRANSITIONS", "StreamEvent", "StreamState", "after"]


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


TRANSITIONS: Final[Mapping[int, Mapping[StreamEvent, StreamState]]] = {
    StreamState.IN_SYNC: {
        StreamEvent.SYNC_LOST: StreamState.LOST,
        StreamEvent.SUSPECTED: StreamState.SUSPECT,
        StreamEvent.LOGIN_BEGAN: StreamState.LOGIN,
        StreamEvent.ENDED: StreamState.CLOSED,
    },
    StreamState.SUSPECT: {
        StreamEvent.SYNC_LOST: StreamState.LOST,
        StreamEvent.READ: StreamState.IN_SYNC,
        StreamEvent.SUSPECTED: StreamState.SUSPECT,
        StreamEvent.LOGIN_BEGAN: StreamState.LOGIN,
        StreamEvent.ENDED: StreamState.CLOSED,
    },
    StreamState.LOGIN: {
        StreamEvent.SYNC_LOST: StreamState.LOST_IN_LOGIN,
        StreamEvent.READ: StreamState.LOGIN,
        StreamEvent.SUSPECTED: StreamState.LOGIN,
        # A token of this direction may be incomplete when the other one shows that it is over.
        StreamEvent.LOGIN_ENDED: StreamState.SUSPECT,
        StreamEvent.ENDED: StreamState.CLOSED,
    },
    StreamState.LOST: {
        StreamEvent.SYNC_LOST: StreamState.LOST,
        StreamEvent.READ: StreamState.IN_SYNC,
        StreamEvent.SUSPECTED: StreamState.LOST,
        StreamEvent.LOGIN_BEGAN: StreamState.LOST_IN_LOGIN,
        StreamEvent.ENDED: StreamState.CLOSED,
    },
    StreamState.LOST_IN_LOGIN: {
        StreamEvent.SYNC_LOST: StreamState.LOST_IN_LOGIN,
        StreamEvent.READ: StreamState.LOGIN,
        StreamEvent.SUSPECTED: StreamState.LOST_IN_LOGIN,
        StreamEvent.LOGIN_ENDED: StreamState.LOST,
        StreamEvent.ENDED: StreamState.CLOSED,
    },
    StreamState.CLOSED: {},
}


def after(state: int, event: StreamEvent) -> StreamState:
    """Return the state that an event leads to; raises KeyError if none is expected."""
    return TRANSITIONS[state][event]
