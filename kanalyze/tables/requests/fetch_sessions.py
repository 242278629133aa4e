"""Fetch sessions: the partitions that an incremental fetch reads without naming them (KIP-227).

In: fetches, in the order of their responses. Out: the partitions of their sessions.

A request with epoch 0 asks for a new session; the response has the session id. A request with a
higher epoch names only changes of its session. A request with epoch -1 closes it. A response names
only partitions with news, and may be empty. Epochs rise by 1. If one was missed, or if the session
began before the capture, its partitions are unknown and it is empty here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import Saved, make, save

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator

    from kanalyze.common.plain_values import State

__all__ = ["MAX_LISTED", "FetchSession", "FetchSessionUpdate", "FetchSessions", "SessionPartition"]

MAX_LISTED = 1000
"""Most partitions that a row lists, including those that are only in the session."""
_MAX_SESSIONS = 10_000
"""Most sessions that are kept. A broker keeps 1000
(``max.incremental.fetch.session.cache.slots``)."""
_MAX_PARTITIONS = 500_000
"""Most partitions in all sessions together."""
_FINAL_EPOCH = -1
_NO_SESSION = 0
_HIGHEST_EPOCH = 2**31 - 1

SessionPartition: TypeAlias = tuple[str | None, bytes, int]
"""Topic name or None, topic id or zeros, partition; as in the messages of the session."""


class FetchSessionUpdate:
    """What a fetch changes in its session.

    Attributes:
        session_id, epoch: values in the request.
        named: partitions that the request names.
        forgotten: partitions that the request removes from the session.
        response_session_id: session id in the response; None without a decoded response.
        error_code: the top-level error code of the response.
    """

    __slots__ = ("epoch", "error_code", "forgotten", "named", "response_session_id", "session_id")

    def __init__(
        self,
        session_id: int,
        epoch: int,
        named: list[SessionPartition],
        forgotten: list[SessionPartition],
        response_session_id: int | None,
        error_code: int,
    ) -> None:
        self.session_id = session_id
        self.epoch = epoch
        self.named = named
        self.forgotten = forgotten
        self.response_session_id = response_session_id
        self.error_code = error_code


class FetchSession:
    """The partitions of one session, in the order in which they were added."""

    __slots__ = ("changes", "next_epoch", "partitions")
    _SAVED = Saved("next_epoch:count changes:count partitions:dict[(str?,bytes?,int)]")

    def __init__(self, partitions: list[SessionPartition]) -> None:
        self.next_epoch = 1
        self.partitions: dict[SessionPartition, None] = dict.fromkeys(partitions)
        self.changes = 0
        """Number of partitions added or removed so far."""

    def __iter__(self) -> Iterator[SessionPartition]:
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def change(self, added: list[SessionPartition], forgotten: list[SessionPartition]) -> int:
        """Add and remove partitions; return by how much their number grew."""
        before = len(self.partitions)
        for partition in forgotten:
            if partition in self.partitions:
                del self.partitions[partition]
                self.changes += 1
        # A client names a partition again if its fetch offset has changed.
        for partition in added:
            if partition not in self.partitions:
                self.partitions[partition] = None
                self.changes += 1
        return len(self.partitions) - before


class FetchSessions:
    """The sessions of all connections; bounded, the least recently used are removed first.

    In a broker, a session can outlive its connection. But a client that reconnects begins a new
    session.
    """

    __slots__ = ("_most_partitions", "_most_sessions", "_partitions", "_sessions")
    _NOT_SAVED = ("_most_partitions", "_most_sessions", "_partitions")

    def __init__(
        self, *, most_sessions: int = _MAX_SESSIONS, most_partitions: int = _MAX_PARTITIONS
    ) -> None:
        self._sessions: OrderedDict[tuple[Hashable, int], FetchSession] = OrderedDict()
        self._most_sessions = most_sessions
        self._most_partitions = most_partitions
        self._partitions = 0

    def state(self, connections: Collection[int]) -> State:
        """Return what :meth:`from_state` takes: the sessions of some connections."""
        states: list[State] = []
        for (connection, session_id), session in self._sessions.items():
            if connection in connections:
                states.append((connection, session_id, save(session)))
        return tuple(states)

    @classmethod
    def from_state(cls, state: object) -> FetchSessions:
        """Make the sessions from a state; raises ValueError for any other value."""
        sessions = cls()
        for item in items(state, "t"):
            connection, session_id, session_state = fields(item, "nit")
            session = make(FetchSession, session_state)
            sessions._sessions[connection, session_id] = session
            sessions._partitions += len(session.partitions)
        if (
            sessions._partitions > sessions._most_partitions
            or len(sessions) > sessions._most_sessions
        ):
            raise ValueError("too many fetch sessions")
        return sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def follow(self, connection: Hashable, fetch: FetchSessionUpdate) -> FetchSession:
        """Apply a fetch to its session; return the session, which is valid until the next call.

        The session is empty for a full fetch, which names all its partitions, and if its partitions
        are unknown.
        """
        if fetch.epoch > 0:
            return self._incremental((connection, fetch.session_id), fetch)
        if fetch.session_id != _NO_SESSION:
            self._forget((connection, fetch.session_id))
        if fetch.epoch != _FINAL_EPOCH and fetch.response_session_id and not fetch.error_code:
            self._begin((connection, fetch.response_session_id), fetch.named)
        return FetchSession([])

    def _begin(self, key: tuple[Hashable, int], named: list[SessionPartition]) -> None:
        self._forget(key)
        if len(named) > self._most_partitions:
            return
        session = self._sessions[key] = FetchSession(named)
        self._partitions += len(session.partitions)
        self._drop_oldest()

    def _incremental(self, key: tuple[Hashable, int], fetch: FetchSessionUpdate) -> FetchSession:
        session = self._sessions.get(key)
        if session is None:
            return FetchSession([])
        if fetch.error_code or fetch.epoch != session.next_epoch:
            # The broker refused the fetch, or an earlier fetch of the session was not captured.
            self._forget(key)
            return FetchSession([])
        session.next_epoch = 1 if fetch.epoch == _HIGHEST_EPOCH else fetch.epoch + 1
        self._sessions.move_to_end(key)
        if fetch.named or fetch.forgotten:
            self._partitions += session.change(fetch.named, fetch.forgotten)
            self._drop_oldest()
        return session

    def _forget(self, key: tuple[Hashable, int]) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def _drop_oldest(self) -> None:
        """Drop the least recently used sessions while there are too many sessions or partitions."""
        while len(self._sessions) > self._most_sessions or self._partitions > self._most_partitions:
            self._forget(next(iter(self._sessions)))
