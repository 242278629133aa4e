"""What earlier requests of a connection show about a request: long polls and fetch sessions.

In: requests, in the order of their responses, with both bodies. Out: whether the broker delayed the
response on purpose, or was slow; the partitions of a fetch session.

Waiting for the members of a group
----------------------------------

A coordinator answers a JoinGroup when all members have joined, and a SyncGroup when the leader has
sent the assignments. The leader's own SyncGroup does not wait: the coordinator only stores the
assignments. Some errors end such a wait; all other errors are sent at once. It waits as long as the
member's rebalance timeout, at most.

Waiting for data (Fetch)
------------------------

A broker answers a fetch at once if it has ``min_bytes``, on an error, if ``max_wait_ms`` or
``min_bytes`` is 0, or if the fetch only closes its session. Otherwise it delays the response until
the data is there or ``max_wait_ms`` is over (KIP-541, kafka.server.DelayedFetch). So:

- a response with less than ``min_bytes``, after at least ``max_wait_ms``, waited to the end;
- a response with enough bytes waited if all of them were appended after an earlier response of the
  same connection that shows where the log ended. The data arrived at some time after that earlier
  response. If most of that time is before the request, the result is not "waited".
- a partition's error that can arise meanwhile (its leader moved, it was deleted) ends the wait, as
  data does: the partition had none in that earlier response.

The fetches of the metadata log (KIP-595) and of replicas wait with a ``min_bytes`` of 0 too, and a
higher high watermark ends their wait.

In a fetch session (KIP-227), a partition that is not in the response had nothing new. So an earlier
response of the session shows the log ends of partitions that it does not have.

Responses on other connections would show more about the first fetches of a connection. They are not
used: a row would depend on what else was captured, and where.

A broker handles one request of a connection at a time. A fetch that is sent while another one
waits is delayed with it, and is marked like it.

If bytes of the connection were lost, an earlier response may be among them. Then the result is None
for a fetch that does not itself prove that it waited.

Waiting without log ends (ShareFetch, heartbeats)
-------------------------------------------------

A ShareFetch is delayed like a Fetch, but its responses have no log ends. A response below its
limits had all available records, so the records in the next response of that connection became
available later. The request waited for them if most of the time between the responses is in the
request. By the same rule a heartbeat of the newer groups counts as delayed, but only if it has an
assignment: no broker is known to delay a heartbeat without one, and the delay of a slow broker must
not count as one on purpose.

Fetch sessions
--------------

An incremental fetch reads partitions without naming them (KIP-227). A request with epoch 0 asks for
a new session; the response has the session id. A request with a higher epoch names only changes of
its session. A request with epoch -1 closes it. A response names only partitions with news, and may
be empty. Epochs rise by 1. If one was missed, or if the session began before the capture, its
partitions are unknown and it is empty here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import Saved, make, save

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.tables.requests.summaries import (
        BASE_OFFSET,
        ERROR_CODE,
        HIGH_WATERMARK,
        LAST_OFFSET,
        MAX_WAIT_MS,
        MIN_BYTES,
        PARTITION,
        REBALANCE_TIMEOUT_MS,
        RECORD_BYTES,
        REPLICA_ID,
        SESSION_TIMEOUT_MS,
        SHARE_EPOCH,
    )

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from kanalyze.common.plain_values import State
    from kanalyze.tables.requests.summaries import (
        Delivery,
        ExchangeSummary,
        FetchSessionUpdate,
        SessionPartition,
    )

__all__ = [
    "HEARTBEAT_APIS",
    "HELD_BACK_APIS",
    "MAX_LISTED",
    "MAY_WAIT_APIS",
    "MEMBER_APIS",
    "FetchSession",
    "FetchSessions",
    "LongPollDetector",
    "is_replication",
    "longest_join_ms",
    "longest_wait_ms",
    "may_be_held_back",
    "waited_for_members",
]


Value = TypeVar("Value")

_FETCH, _JOIN_GROUP, _SYNC_GROUP, _SHARE_FETCH = 1, 11, 14, 78
MEMBER_APIS: Final = frozenset({_JOIN_GROUP, _SYNC_GROUP})
"""APIs whose responses wait for other members of the group."""
HELD_BACK_APIS: Final = MEMBER_APIS | {_FETCH, _SHARE_FETCH}
"""API keys of the APIs whose responses a broker may delay."""
HEARTBEAT_APIS: Final = frozenset({68, 76})
"""Heartbeats of the newer groups, whose responses may have assignments."""
MAY_WAIT_APIS: Final = HELD_BACK_APIS | HEARTBEAT_APIS
"""The only APIs whose requests may count as having waited."""

_ENDS_A_WAIT: Final = frozenset(
    {
        0,
        15,  # COORDINATOR_NOT_AVAILABLE: the group could not be stored
        16,  # NOT_COORDINATOR: the group moved to another broker
        25,  # UNKNOWN_MEMBER_ID: the member was removed from the group
        27,  # REBALANCE_IN_PROGRESS: another member joined before the assignments arrived
        82,  # FENCED_INSTANCE_ID: another member has the same instance id
    }
)
"""Error codes that end a wait for other members."""
_ENDS_A_FETCH: Final = frozenset(
    {
        1,  # OFFSET_OUT_OF_RANGE: the log was truncated, or its begin deleted
        3,  # UNKNOWN_TOPIC_OR_PARTITION: the partition was deleted, or moved away
        5,  # LEADER_NOT_AVAILABLE
        6,  # NOT_LEADER_OR_FOLLOWER: the leader moved
        9,  # REPLICA_NOT_AVAILABLE
        56,  # KAFKA_STORAGE_ERROR: the disk failed
        74,  # FENCED_LEADER_EPOCH: a new leader was elected
        75,  # UNKNOWN_LEADER_EPOCH
        100,  # UNKNOWN_TOPIC_ID: the topic was deleted
    }
)
"""Error codes of a partition that may arise while a fetch waits; others are sent at once."""

_METADATA_TOPIC, _METADATA_TOPIC_ID = "__cluster_metadata", bytes(15) + b"\1"
"""The log of metadata, which controllers and brokers fetch by Raft (KIP-595)."""
_FINAL_EPOCH = -1
"""The epoch of a fetch that closes its session (KIP-227, KIP-932)."""
_HIGHEST_EPOCH = 2**31 - 1
_ANY_OFFSET = 1 << 62
"""In place of an offset, for an error: it is beyond every log end."""
_NS_PER_MS = 1_000_000
_TIMER_NS = _NS_PER_MS
"""The resolution of Kafka's timers: 1 ms."""
_MAX_LOG_ENDS = 4
_MAX_PARTITIONS = 200_000
_MAX_CONNECTIONS = 100_000
_NONE: frozenset[Any] = frozenset()
_NO_FETCH = (0, -1)


def waited_for_members(error_code: int, *, has_assignments: bool | None) -> bool:
    """Return true if a request of :data:`MEMBER_APIS` waited for other members.

    Args:
        error_code: error code of the response.
        has_assignments: whether a SyncGroup request has the assignments; None for a JoinGroup.
    """
    return not has_assignments and error_code in _ENDS_A_WAIT


def longest_wait_ms(summary: ExchangeSummary) -> int | None:
    """Return the longest delay of a Fetch or ShareFetch in ms; None for other requests.

    It is 0 for a fetch with a maximum wait of 0, of a consumer with a minimum of 0 bytes, or that
    only closes its session.
    """
    max_wait_ms, min_bytes = summary.number(MAX_WAIT_MS), summary.number(MIN_BYTES)
    if max_wait_ms is None or min_bytes is None:
        return None
    session = summary.session
    ends = session is not None and session.epoch == _FINAL_EPOCH and not session.named
    if ends or summary.number(SHARE_EPOCH) == _FINAL_EPOCH:
        return 0
    if min_bytes <= 0 and not is_replication(summary):
        return 0
    return max(max_wait_ms, 0)


def longest_join_ms(summary: ExchangeSummary) -> int | None:
    """Return how long a JoinGroup waits for other members at most, in ms; None if unknown.

    Before version 1, the session timeout is the rebalance timeout too.
    """
    for field in (REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS):
        timeout_ms = summary.number(field)
        if timeout_ms is not None and timeout_ms > 0:
            return timeout_ms
    return None


def is_replication(summary: ExchangeSummary) -> bool:
    """Return true if a Fetch is that of a replica, or of the metadata log."""
    replica_id = summary.number(REPLICA_ID)
    if replica_id is not None and replica_id >= 0:
        return True
    partitions = summary.partitions
    for index in range(partitions.count):
        topic = partitions.topics[index]
        if topic == _METADATA_TOPIC:
            return True
        if not topic and partitions.topic_ids[index] == _METADATA_TOPIC_ID:
            return True
    return False


def may_be_held_back(api_key: int, summary: ExchangeSummary, *, start_ns: int, now_ns: int) -> bool:
    """Return true if a broker may still delay the response to a request.

    Args:
        api_key: key of any API.
        summary: summary of the request.
        start_ns: Unix time of the request in ns.
        now_ns: present Unix time in ns.
    """
    if api_key in MEMBER_APIS:
        return not summary.has_assignments
    if api_key not in HELD_BACK_APIS:
        return False
    return start_ns + (longest_wait_ms(summary) or 0) * _NS_PER_MS >= now_ns


class LongPollDetector:
    """Decides which responses were delayed on purpose; keeps log ends of each connection."""

    _SAVED = Saved(
        "_ends:dict[(count,str?,bytes?,int),list[(int,int)]] _fetches:dict[count,(int,int)] "
        "_emptied:dict[(count,int?),int]",
        added="_sessions:dict[count,(int,int,int)] _join_ms:dict[count,count]",
    )

    def __init__(self) -> None:
        self._emptied: dict[Hashable, int] = {}
        """By connection and API: time of the last response with all available data; else -1."""
        self._ends: dict[Hashable, list[tuple[int, int]]] = {}
        """By connection and partition: the latest log ends, as time and high watermark."""
        self._fetches: dict[Hashable, tuple[int, int]] = {}
        """By connection: when a delayed response ended, and when the last response came."""
        self._sessions: dict[Hashable, tuple[int, int, int]] = {}
        """By connection: its fetch session, the next epoch, and when the last response came."""
        self._join_ms: dict[Hashable, int] = {}
        """By connection: the longest wait of the last JoinGroup."""

    def of_connections(self, connections: Collection[int]) -> LongPollDetector:
        """Return what is known of some connections, by serial number; all others have ended."""
        ends: dict[Any, list[tuple[int, int]]] = self._ends
        emptied: dict[Any, int] = self._emptied
        open_ones = LongPollDetector()
        open_ones._ends = {log: known for log, known in ends.items() if log[0] in connections}
        open_ones._emptied = {key: ns for key, ns in emptied.items() if key[0] in connections}
        open_ones._fetches = _of(self._fetches, connections)
        open_ones._sessions = _of(self._sessions, connections)
        open_ones._join_ms = _of(self._join_ms, connections)
        return open_ones

    def _after_load(self) -> None:
        if any(len(known) > _MAX_LOG_ENDS for known in self._ends.values()):
            raise ValueError("too many log ends")

    def learn(self, partition: Hashable, high_watermark: int, time_ns: int) -> None:
        """Note that the log of a partition ended at ``high_watermark`` at time ``time_ns``."""
        ends = self._ends.get(partition)
        if ends is None:
            if len(self._ends) >= _MAX_PARTITIONS:
                self._ends.clear()
            ends = self._ends[partition] = []
        ends.append((time_ns, high_watermark))
        if len(ends) > _MAX_LOG_ENDS:
            del ends[0]

    def member_limit_ms(self, connection: int, summary: ExchangeSummary) -> int | None:
        """Return how long a request of :data:`MEMBER_APIS` waits at most, in ms; None if unknown.

        A SyncGroup waits as long as the JoinGroup before it on the connection.
        """
        if summary.has_assignments is not None:
            return self._join_ms.get(connection)
        limit_ms = longest_join_ms(summary)
        if limit_ms is not None:
            if len(self._join_ms) >= _MAX_CONNECTIONS:
                self._join_ms.clear()
            self._join_ms[connection] = limit_ms
        return limit_ms

    def fetch_waited(  # noqa: C901 - one pass over the partitions
        self,
        summary: ExchangeSummary,
        connection: int,
        request_ns: int,
        response_ns: int,
        lost_ns: int | None,
    ) -> bool | None:
        """Return true if the response to a fetch was delayed on purpose; note its log ends.

        Args:
            summary: summary of the fetch.
            connection: this and the following are as in :meth:`waited`.
            request_ns: time of the request's last byte.
            response_ns: time of the response's first byte.
            lost_ns: time of the last loss on the connection.
        """
        wait_ms, min_bytes = longest_wait_ms(summary), summary.number(MIN_BYTES)
        if wait_ms is None or min_bytes is None:
            return None
        is_replica = is_replication(summary)
        if is_replica:
            min_bytes = max(min_bytes, 1)
        quiet_ns = self._follow_session(summary, connection, response_ns)
        named = set(summary.session.named) if quiet_ns >= 0 and summary.session else _NONE
        failed = summary.code != 0
        record_bytes = 0
        is_ended = False
        news: list[tuple[Hashable, int, int]] = []
        log_ends: list[tuple[Hashable, int]] = []
        partitions = summary.partitions
        for index in range(partitions.count):
            if not partitions.has(index, ERROR_CODE):
                continue
            code = partitions.number(index, ERROR_CODE)
            if partitions.has(index, RECORD_BYTES):
                record_bytes += partitions.number(index, RECORD_BYTES)
            # A log ends between batches, never inside one.
            column = BASE_OFFSET if partitions.has(index, BASE_OFFSET) else LAST_OFFSET
            has_offset = partitions.has(index, column)
            has_end = partitions.has(index, HIGH_WATERMARK)
            if not (has_offset or has_end or code):
                continue
            topic, topic_id = partitions.topics[index], partitions.topic_ids[index]
            log = (connection, topic, topic_id, partitions.get(index, PARTITION))
            absent_ns = quiet_ns
            if named and partitions.has(index, PARTITION) and partitions.key_of(index) in named:
                absent_ns = -1
            if code:
                failed = failed or code not in _ENDS_A_FETCH
                is_ended = True
                news.append((log, _ANY_OFFSET, absent_ns))
                # The same error is none of the news of the next response.
                log_ends.append((log, _ANY_OFFSET + 1))
                continue
            if has_offset:
                news.append((log, partitions.number(index, column), absent_ns))
            if has_end:
                log_ends.append((log, partitions.number(index, HIGH_WATERMARK)))
        if is_replica and record_bytes < min_bytes and not is_ended:
            news += self._higher(log_ends, request_ns)
            is_ended = bool(news)
        waited = self.waited(
            connection,
            request_ns,
            response_ns,
            wait_ms,
            min_bytes,
            max(record_bytes, min_bytes) if is_ended else record_bytes,
            failed,
            news,
            lost_ns,
        )
        for ended_log, high_watermark in log_ends:
            self.learn(ended_log, high_watermark, response_ns)
        return waited

    def _higher(
        self, log_ends: list[tuple[Hashable, int]], request_ns: int
    ) -> list[tuple[Hashable, int, int]]:
        """Return the logs whose high watermark rose: that is news for a replica, without data."""
        found = []
        for log, high_watermark in log_ends:
            log_end = self._before(log, request_ns)
            if log_end is not None and high_watermark > log_end[1]:
                found.append((log, high_watermark, -1))
        return found

    def _follow_session(
        self, summary: ExchangeSummary, connection: Hashable, response_ns: int
    ) -> int:
        """Return when the response before this one in its fetch session came, and note this one.

        -1 for a fetch that is not incremental, and if a fetch of the session was missed.
        """
        fetch = summary.session
        if fetch is None or fetch.error_code or fetch.epoch < 0 or not fetch.response_session_id:
            self._sessions.pop(connection, None)
            return -1
        session_id, next_epoch, last_ns = self._sessions.get(connection, (-1, -1, -1))
        if fetch.epoch == 0 or fetch.session_id != session_id or fetch.epoch != next_epoch:
            last_ns = -1
        if len(self._sessions) >= _MAX_CONNECTIONS:
            self._sessions.clear()
        self._sessions[connection] = (
            fetch.response_session_id,
            1 if fetch.epoch == _HIGHEST_EPOCH else fetch.epoch + 1,
            response_ns,
        )
        return last_ns

    def waited(
        self,
        connection: Hashable,
        request_ns: int,
        response_ns: int,
        max_wait_ms: int,
        min_bytes: int,
        record_bytes: int,
        failed: bool,
        news: list[tuple[Hashable, int, int]],
        lost_ns: int | None = None,
    ) -> bool | None:
        """Return true if the response to a fetch was delayed on purpose; None if unknown.

        Args:
            connection: any key; its fetches must come in the order of their responses.
            request_ns: time of the request's last byte.
            response_ns: time of the response's first byte.
            max_wait_ms: the result of :func:`longest_wait_ms`.
            min_bytes: minimum bytes in the request.
            record_bytes: bytes of records in the response.
            failed: whether the response has an error code that is sent at once.
            news: what the response has of each partition: its log, the base offset of the record
                data, and the time of an earlier response that shows that there was nothing beyond
                the fetch offset; -1 for none.
            lost_ns: time of the last loss on the connection; None if nothing was lost.
        """
        before = self._fetches.get(connection, _NO_FETCH)
        delayed_until, last_ns = before
        waited: bool = True
        learned_ns: int | None = None
        if request_ns >= delayed_until:
            waited, learned_ns = self._waited_itself(
                request_ns, response_ns, max_wait_ms, min_bytes, record_bytes, failed, news
            )
            if waited:
                delayed_until = response_ns
        if len(self._fetches) >= _MAX_CONNECTIONS:
            self._fetches.clear()
        self._fetches[connection] = (delayed_until, response_ns)
        if waited or lost_ns is None:
            return waited
        known_ns = last_ns if learned_ns is None else min(last_ns, learned_ns)
        return None if lost_ns > known_ns else False

    def waited_for_updates(
        self,
        stream: Hashable,
        request_ns: int,
        response_ns: int,
        delivery: Delivery,
        lost_ns: int | None = None,
    ) -> bool | None:
        """Return true if a ShareFetch or a heartbeat was delayed on purpose; None if unknown.

        Args:
            stream: connection and API; its requests must come in the order of their responses.
            request_ns: time of the request's last byte.
            response_ns: time of the response's first byte.
            delivery: what the response delivered.
            lost_ns: time of the last loss on the connection; None if nothing was lost.
        """
        max_wait_ms, latency_ns = delivery.max_wait_ms, response_ns - request_ns
        emptied_ns = self._emptied.get(stream, -1)
        if not delivery.failed:
            # A response with an error does not show what was available.
            if len(self._emptied) >= _MAX_CONNECTIONS:
                self._emptied.clear()
            self._emptied[stream] = response_ns if delivery.is_all else -1
        if delivery.failed or (max_wait_ms is not None and max_wait_ms <= 0):
            return False
        if not delivery.is_enough:
            return max_wait_ms is not None and latency_ns + _TIMER_NS >= max_wait_ms * _NS_PER_MS
        if emptied_ns >= 0 and latency_ns > request_ns - emptied_ns:
            return True
        return None if lost_ns is not None and lost_ns > emptied_ns else False

    def _waited_itself(
        self,
        request_ns: int,
        response_ns: int,
        max_wait_ms: int,
        min_bytes: int,
        record_bytes: int,
        failed: bool,
        news: list[tuple[Hashable, int, int]],
    ) -> tuple[bool, int | None]:
        """Return true if this fetch itself waited, and the time of the log ends that prove it.

        The time is None if no log end is needed, and -1 if a needed log end is unknown.
        """
        if max_wait_ms <= 0 or min_bytes <= 0 or failed:
            return False, None
        latency_ns = response_ns - request_ns
        if record_bytes < min_bytes:
            return latency_ns + _TIMER_NS >= max_wait_ms * _NS_PER_MS, None
        newest_ns = -1
        for log, offset, quiet_ns in news:
            known_ns = quiet_ns if quiet_ns <= request_ns else -1
            log_end = self._before(log, request_ns)
            if log_end is not None:
                if offset < log_end[1]:
                    return False, None
                known_ns = max(known_ns, log_end[0])
            if known_ns < 0:
                return False, -1
            newest_ns = max(newest_ns, known_ns)
        return newest_ns >= 0 and latency_ns > request_ns - newest_ns, newest_ns

    def _before(self, partition: Hashable, time_ns: int) -> tuple[int, int] | None:
        """Return the latest log end that is known up to a time; None if there is none."""
        ends = self._ends.get(partition)
        if ends is None:
            return None
        for index in range(len(ends) - 1, -1, -1):
            log_end = ends[index]
            if log_end[0] <= time_ns:
                return log_end
        return None


def _of(values: dict[Hashable, Value], connections: Collection[int]) -> dict[Hashable, Value]:
    return {connection: each for connection, each in values.items() if connection in connections}


MAX_LISTED = 1000
"""Most partitions that a row lists, including those that are only in the session."""
_MAX_SESSIONS = 10_000
"""Most sessions that are kept. A broker keeps 1000
(``max.incremental.fetch.session.cache.slots``)."""
_MAX_SESSION_PARTITIONS = 500_000
"""Most partitions in all sessions together."""
_NO_SESSION = 0


class FetchSession:
    """The partitions of one session, in the order in which they were added."""

    _SAVED = Saved("next_epoch:count changes:count partitions:dict[(str?,bytes?,int)]")

    def __init__(self, partitions: list[SessionPartition]) -> None:
        self.next_epoch = 1
        self.partitions: dict[SessionPartition, None] = dict.fromkeys(partitions)
        self.changes = 0
        """Number of partitions added or removed so far."""

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

    _NOT_SAVED = ("_most_partitions", "_most_sessions", "_partitions")

    def __init__(
        self, *, most_sessions: int = _MAX_SESSIONS, most_partitions: int = _MAX_SESSION_PARTITIONS
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
