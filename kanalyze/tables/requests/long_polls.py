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

from array import array
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import Saved, load, save
from kanalyze.tables.requests.topics import KeyTable, TopicTable

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.codec.machine import doubled
    from kanalyze.tables.requests.summaries import (
        BASE_OFFSET,
        ERROR_CODE,
        HIGH_WATERMARK,
        LAST_OFFSET,
        MAX_WAIT_MS,
        MIN_BYTES,
        REBALANCE_TIMEOUT_MS,
        RECORD_BYTES,
        REPLICA_ID,
        SESSION_TIMEOUT_MS,
        SHARE_EPOCH,
        TOPIC,
        TOPIC_ID,
    )
    from kanalyze.tables.requests.topics import METADATA

    NO_WAIT_KNOWN = NOT_KNOWN = -1
    MAX_LOG_ENDS = 4

LOG_CELLS = 9  # how many ends a log had; time and high watermark of the last, at number % 4
# Of a connection: until when its last fetch was delayed, when the last response came; its fetch
# session, the next epoch, and when the last response came: -1 for a session that is not known.
DELAYED_UNTIL, LAST, SESSION, NEXT_EPOCH, SESSION_LAST, CONNECTION_CELLS = range(6)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from kanalyze.common.plain_values import State
    from kanalyze.tables.requests.summaries import (
        Delivery,
        ExchangeSummary,
        FetchSessionUpdate,
        PartitionColumns,
        SessionPartition,
    )

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

_FINAL_EPOCH = -1
"""The epoch of a fetch that closes its session (KIP-227, KIP-932)."""
_HIGHEST_EPOCH = 2**31 - 1
_ANY_OFFSET = 1 << 62
"""In place of an offset, for an error: it is beyond every log end."""
_NS_PER_MS = 1_000_000
_LONGEST_NS = 1 << 62
"""Times nearer to 0 than this have differences that fit in 64 bits."""
_TIMER_NS = _NS_PER_MS
"""The resolution of Kafka's timers: 1 ms."""
_MAX_PARTITIONS = 200_000
_MAX_CONNECTIONS = 100_000
_NO_FETCH = (0, -1)
_NO_SESSION_KNOWN = (-1, -1, -1)


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
    wait_ms = longest_wait(summary)
    return None if wait_ms == NO_WAIT_KNOWN else wait_ms


def longest_wait(summary: ExchangeSummary) -> int:
    """Return :func:`longest_wait_ms`; ``NO_WAIT_KNOWN`` in place of None."""
    if not (summary.has(MAX_WAIT_MS) and summary.has(MIN_BYTES)):
        return NO_WAIT_KNOWN
    session = summary.session
    if session is not None and session.epoch == _FINAL_EPOCH and not session.named.count:
        return 0
    if summary.number_or(SHARE_EPOCH, 0) == _FINAL_EPOCH:
        return 0
    if summary.number_or(MIN_BYTES, 0) <= 0 and not is_replication(summary):
        return 0
    return max(summary.number_or(MAX_WAIT_MS, 0), 0)


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
    if summary.number_or(REPLICA_ID, -1) >= 0:
        return True
    partitions = summary.partitions
    for index in range(partitions.count):
        topic = partitions.number(index, TOPIC)
        if topic == METADATA or (topic <= 0 and partitions.number(index, TOPIC_ID) == METADATA):
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


class LogEnds:
    """The latest ends of the logs of connections, as time and high watermark.

    A log is a partition by the name, the id and the number that the messages of its connection
    have. At most :data:`_MAX_PARTITIONS` logs are known; beyond, all are forgotten.
    """

    def __init__(self) -> None:
        self.keys = KeyTable()
        self.known = memoryview(array("q", bytes(8 * LOG_CELLS * 16)))

    def find(self, connection: int, partitions: PartitionColumns, index: int) -> int:
        """Return the entry of the log of a partition; -1 if nothing is known of it."""
        return partitions.entry_in(self.keys, connection, index, False)

    def learn(
        self,
        connection: int,
        partitions: PartitionColumns,
        index: int,
        high_watermark: int,
        time_ns: int,
    ) -> None:
        """Note where the log of a partition ended at a time."""
        entry = self.find(connection, partitions, index)
        if entry < 0:
            self._make_room()
            entry = partitions.entry_in(self.keys, connection, index, True)
            self._begin(entry)
        self.add(entry, high_watermark, time_ns)

    def entry(self, connection: int, topic: int, topic_id: int, partition: int) -> int:
        """Return the entry of a log; if it is new, nothing is known of it."""
        entry = self.keys.find(connection, topic, topic_id, partition)
        if entry < 0:
            self._make_room()
            entry = self.keys.add(connection, topic, topic_id, partition)
            self._begin(entry)
        return entry

    def _make_room(self) -> None:
        if self.keys.count >= _MAX_PARTITIONS:
            self.keys.clear()

    def _begin(self, entry: int) -> None:
        """Begin a log of which nothing is known."""
        while (entry + 1) * LOG_CELLS > len(self.known):
            self.known = doubled(self.known)
        self.known[entry * LOG_CELLS] = 0

    def add(self, entry: int, high_watermark: int, time_ns: int) -> None:
        """Note where a log ended at a time; the oldest of too many ends is overwritten."""
        at = entry * LOG_CELLS
        count = self.known[at]
        place = at + 1 + 2 * (count % MAX_LOG_ENDS)
        self.known[place], self.known[place + 1] = time_ns, high_watermark
        self.known[at] = count + 1

    def before(self, entry: int, time_ns: int) -> int:
        """Return the index of the latest log end that is known up to a time; -1 for none.

        There is its time, and after it its high watermark. ``entry`` may be -1.
        """
        if entry < 0:
            return -1
        at = entry * LOG_CELLS
        count = self.known[at]
        for number in range(count - 1, max(count - MAX_LOG_ENDS, 0) - 1, -1):
            place = at + 1 + 2 * (number % MAX_LOG_ENDS)
            if self.known[place] <= time_ns:
                return place
        return -1

    def ends(self, entry: int) -> list[tuple[int, int]]:
        """Return the known ends of a log, as time and high watermark, the oldest first."""
        at = entry * LOG_CELLS
        count = self.known[at]
        numbers = range(max(count - MAX_LOG_ENDS, 0), count)
        places = [at + 1 + 2 * (number % MAX_LOG_ENDS) for number in numbers]
        return [(self.known[place], self.known[place + 1]) for place in places]


class LongPollDetector:
    """Decides which responses were delayed on purpose; keeps log ends of each connection."""

    _SAVED = Saved(
        "_ends:dict[(count,str?,bytes?,int),list[(int,int)]] _fetches:dict[count,(int,int)] "
        "_emptied:dict[(count,int?),int]",
        added="_sessions:dict[count,(int,int,int)] _join_ms:dict[count,count]",
    )
    _NOT_SAVED = (
        *("_connections", "_ends_count", "_failed", "_is_ended", "_learned_ns"),
        *("_log_ends", "_logs", "_news", "_news_count", "_record_bytes", "_records", "_topics"),
    )

    def __init__(self, topics: TopicTable | None = None) -> None:
        """``topics`` numbers the topics of the summaries; None for a table of its own."""
        self._topics = TopicTable() if topics is None else topics
        self._emptied: dict[Hashable, int] = {}
        """By connection and API: time of the last response with all available data; else -1."""
        self._join_ms: dict[int, int] = {}
        """By connection: the longest wait of the last JoinGroup."""
        self._logs = LogEnds()
        self._connections = KeyTable()
        """The connections with fetches; ``_records`` has ``CONNECTION_CELLS`` numbers of each."""
        self._records = memoryview(array("q", bytes(8 * CONNECTION_CELLS * 16)))
        # Of the fetch that is looked at: three numbers for each log with news (its entry or -1, the
        # offset, and since when there was nothing), two for each log end (index, high watermark).
        self._news = memoryview(array("q", bytes(8 * 3 * 16)))
        self._log_ends = memoryview(array("q", bytes(8 * 2 * 16)))
        self._news_count = self._ends_count = self._record_bytes = self._learned_ns = 0
        self._failed = self._is_ended = False

    def forget_topics(self) -> None:
        """Forget what is known of logs, because topics get other numbers."""
        self._logs.keys.clear()

    # -- state ------------------------------------------------------------------------------------

    @property
    def _ends(self) -> dict[tuple[int, str | None, bytes, int], list[tuple[int, int]]]:
        """By connection and partition: the latest log ends, as time and high watermark."""
        topics, ends = self._topics, {}
        for entry, (connection, topic, topic_id, partition) in enumerate(self._logs.keys):
            key = connection, topics.name(topic), topics.id(topic_id), partition
            ends[key] = self._logs.ends(entry)
        return ends

    @_ends.setter
    def _ends(
        self, ends: dict[tuple[int, str | None, bytes | None, int], list[tuple[int, int]]]
    ) -> None:
        topics, logs = self._topics, self._logs
        logs.keys.clear()
        for (connection, topic, topic_id, partition), pairs in ends.items():
            number = topics.number_of_id(bytes(16) if topic_id is None else topic_id)
            entry = logs.entry(connection, topics.number_of(topic), number, partition)
            for time_ns, high_watermark in pairs:
                logs.add(entry, high_watermark, time_ns)

    @property
    def _fetches(self) -> dict[int, tuple[int, int]]:
        """By connection: when a delayed response ended, and when the last response came."""
        return {
            connection: (self._records[at + DELAYED_UNTIL], self._records[at + LAST])
            for connection, at in self._known_connections()
            if (self._records[at + DELAYED_UNTIL], self._records[at + LAST]) != _NO_FETCH
        }

    @_fetches.setter
    def _fetches(self, fetches: dict[int, tuple[int, int]]) -> None:
        for connection, (delayed_until, last_ns) in fetches.items():
            at = self._connection(connection)
            self._records[at + DELAYED_UNTIL], self._records[at + LAST] = delayed_until, last_ns

    @property
    def _sessions(self) -> dict[int, tuple[int, int, int]]:
        """By connection: its fetch session, the next epoch, and when the last response came."""
        sessions = {}
        for connection, at in self._known_connections():
            session_id, epoch = self._records[at + SESSION], self._records[at + NEXT_EPOCH]
            session = session_id, epoch, self._records[at + SESSION_LAST]
            if session != _NO_SESSION_KNOWN:
                sessions[connection] = session
        return sessions

    @_sessions.setter
    def _sessions(self, sessions: dict[int, tuple[int, int, int]]) -> None:
        for connection, (session_id, next_epoch, last_ns) in sessions.items():
            self._set_session(self._connection(connection), session_id, next_epoch, last_ns)

    def _known_connections(self) -> list[tuple[int, int]]:
        """Return the connections with fetches, and where the numbers of each begin."""
        return [(key[0], entry * CONNECTION_CELLS) for entry, key in enumerate(self._connections)]

    def of_connections(self, connections: Collection[int]) -> LongPollDetector:
        """Return what is known of some connections, by serial number; all others have ended."""
        emptied: dict[Any, int] = self._emptied
        open_ones = LongPollDetector(self._topics)
        open_ones._ends = {log: ends for log, ends in self._ends.items() if log[0] in connections}
        open_ones._emptied = {key: ns for key, ns in emptied.items() if key[0] in connections}
        open_ones._fetches = _of(self._fetches, connections)
        open_ones._sessions = _of(self._sessions, connections)
        open_ones._join_ms = _of(self._join_ms, connections)
        return open_ones

    def _after_load(self) -> None:
        if any(len(known) > MAX_LOG_ENDS for known in self._ends.values()):
            raise ValueError("too many log ends")

    # -- what is known of connections --------------------------------------------------------------

    def _connection(self, connection: int) -> int:
        """Return where the numbers of a connection begin."""
        entry = self._connections.find(connection, 0, 0, 0)
        if entry < 0:
            if self._connections.count >= _MAX_CONNECTIONS:
                self._connections.clear()
            entry = self._connections.add(connection, 0, 0, 0)
            at = entry * CONNECTION_CELLS
            while at + CONNECTION_CELLS > len(self._records):
                self._records = doubled(self._records)
            self._records[at + DELAYED_UNTIL], self._records[at + LAST] = 0, -1
            self._set_session(at, -1, -1, -1)
        return entry * CONNECTION_CELLS

    def _set_session(self, at: int, session_id: int, next_epoch: int, last_ns: int) -> None:
        self._records[at + SESSION] = session_id
        self._records[at + NEXT_EPOCH] = next_epoch
        self._records[at + SESSION_LAST] = last_ns

    # -- requests that wait -----------------------------------------------------------------------

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

    def fetch_waited(
        self,
        summary: ExchangeSummary,
        connection: int,
        request_ns: int,
        response_ns: int,
        has_lost: bool,
        lost_ns: int,
    ) -> int:
        """Return 1 if the response to a fetch was delayed on purpose, else 0; note its log ends.

        A fetch that is sent while another one of its connection is delayed is delayed with it.

        Args:
            summary: summary of the fetch.
            connection: serial number; its fetches must come in the order of their responses.
            request_ns: time of the request's last byte.
            response_ns: time of the response's first byte.
            has_lost: whether bytes of the connection were lost.
            lost_ns: time of the last loss, if there was one.

        Returns:
            ``NOT_KNOWN`` if a lost response may prove that it waited, or its limits are unknown.
        """
        wait_ms = longest_wait(summary)
        if wait_ms == NO_WAIT_KNOWN:
            return NOT_KNOWN
        min_bytes = summary.number_or(MIN_BYTES, 0)
        is_replica = is_replication(summary)
        if is_replica:
            min_bytes = max(min_bytes, 1)
        quiet_ns = self._follow_session(summary, connection, response_ns)
        self._read_news(summary, connection, quiet_ns)
        if is_replica and self._record_bytes < min_bytes and not self._is_ended:
            self._add_higher(summary.partitions, connection, request_ns)
            self._is_ended = self._news_count > 0
        at = self._connection(connection)
        delayed_until, last_ns = self._records[at + DELAYED_UNTIL], self._records[at + LAST]
        self._learned_ns = last_ns
        waited = True
        if request_ns >= delayed_until:
            waited = False
            if wait_ms > 0 and min_bytes > 0 and not self._failed:
                is_full = self._is_ended or self._record_bytes >= min_bytes
                waited = self._waited_itself(request_ns, response_ns, wait_ms, is_full)
            if waited:
                delayed_until = response_ns
        self._records[at + DELAYED_UNTIL], self._records[at + LAST] = delayed_until, response_ns
        for index in range(self._ends_count):
            self._logs.learn(
                connection,
                summary.partitions,
                self._log_ends[2 * index],
                self._log_ends[2 * index + 1],
                response_ns,
            )
        if waited:
            return 1
        return NOT_KNOWN if has_lost and lost_ns > min(last_ns, self._learned_ns) else 0

    def _read_news(self, summary: ExchangeSummary, connection: int, quiet_ns: int) -> None:
        """Read what the response to a fetch has of each partition: news, log ends, errors.

        News are the base offset of record data, and the time of an earlier response that shows that
        there was nothing beyond the fetch offset: ``quiet_ns`` for partitions that the request does
        not name; -1 for none.
        """
        self._failed, self._is_ended = summary.code != 0, False
        self._record_bytes = self._news_count = self._ends_count = 0
        partitions = summary.partitions
        named = summary.session.named if quiet_ns >= 0 and summary.session is not None else None
        for index in range(partitions.count):
            if not partitions.has(index, ERROR_CODE):
                continue
            code = partitions.number(index, ERROR_CODE)
            if partitions.has(index, RECORD_BYTES):
                self._record_bytes += partitions.number(index, RECORD_BYTES)
            # A log ends between batches, never inside one.
            column = BASE_OFFSET if partitions.has(index, BASE_OFFSET) else LAST_OFFSET
            has_offset = partitions.has(index, column)
            has_end = partitions.has(index, HIGH_WATERMARK)
            if not (has_offset or has_end or code != 0):
                continue
            absent_ns = quiet_ns
            if named is not None and named.index_of(partitions, index, named.count) >= 0:
                absent_ns = -1
            if code != 0:
                self._failed = self._failed or code not in _ENDS_A_FETCH
                self._is_ended = True
                self._add_news(connection, partitions, index, _ANY_OFFSET, absent_ns)
                # The same error is none of the news of the next response.
                self._add_end(index, _ANY_OFFSET + 1)
                continue
            if has_offset:
                offset = partitions.number(index, column)
                self._add_news(connection, partitions, index, offset, absent_ns)
            if has_end:
                self._add_end(index, partitions.number(index, HIGH_WATERMARK))

    def _add_news(
        self, connection: int, partitions: PartitionColumns, index: int, offset: int, absent_ns: int
    ) -> None:
        at = 3 * self._news_count
        if at + 3 > len(self._news):
            self._news = doubled(self._news)
        self._news[at] = self._logs.find(connection, partitions, index)
        self._news[at + 1], self._news[at + 2] = offset, absent_ns
        self._news_count += 1

    def _add_end(self, index: int, high_watermark: int) -> None:
        at = 2 * self._ends_count
        if at + 2 > len(self._log_ends):
            self._log_ends = doubled(self._log_ends)
        self._log_ends[at], self._log_ends[at + 1] = index, high_watermark
        self._ends_count += 1

    def _add_higher(self, partitions: PartitionColumns, connection: int, request_ns: int) -> None:
        """Add the logs whose high watermark rose: that is news for a replica, without data."""
        logs = self._logs
        for number in range(self._ends_count):
            index, high_watermark = self._log_ends[2 * number], self._log_ends[2 * number + 1]
            known = logs.before(logs.find(connection, partitions, index), request_ns)
            if known >= 0 and high_watermark > logs.known[known + 1]:
                self._add_news(connection, partitions, index, high_watermark, -1)

    def _follow_session(self, summary: ExchangeSummary, connection: int, response_ns: int) -> int:
        """Return when the response before this one in its fetch session came, and note this one.

        -1 for a fetch that is not incremental, and if a fetch of the session was missed.
        """
        fetch = summary.session
        if fetch is None or fetch.error_code != 0 or fetch.epoch < 0 or not fetch.has_new_id():
            entry = self._connections.find(connection, 0, 0, 0)
            if entry >= 0:
                self._set_session(entry * CONNECTION_CELLS, -1, -1, -1)
            return -1
        at = self._connection(connection)
        last_ns = self._records[at + SESSION_LAST]
        if (
            fetch.epoch == 0
            or fetch.session_id != self._records[at + SESSION]
            or fetch.epoch != self._records[at + NEXT_EPOCH]
        ):
            last_ns = -1
        next_epoch = 1 if fetch.epoch == _HIGHEST_EPOCH else fetch.epoch + 1
        self._set_session(at, fetch.response_session_id, next_epoch, response_ns)
        return last_ns

    def _waited_itself(
        self, request_ns: int, response_ns: int, max_wait_ms: int, is_full: bool
    ) -> bool:
        """Return true if this fetch itself waited.

        Args:
            request_ns: time of the request's last byte.
            response_ns: time of the response's first byte.
            max_wait_ms: the result of :func:`longest_wait_ms`.
            is_full: whether the response has what the request waited for. Then ``_learned_ns``
                becomes the time of the log ends that prove it, -1 if a needed one is unknown.
        """
        logs, latency_ns = self._logs, apart(response_ns, request_ns)
        if not is_full:
            return latency_ns + _TIMER_NS >= max_wait_ms * _NS_PER_MS
        newest_ns = -1
        for number in range(self._news_count):
            quiet_ns = self._news[3 * number + 2]
            known_ns = quiet_ns if quiet_ns <= request_ns else -1
            known = logs.before(self._news[3 * number], request_ns)
            if known >= 0:
                end, at_ns = logs.known[known + 1], logs.known[known]
                is_error = end > _ANY_OFFSET
                # An error that a later response of the session does not have is over.
                if self._news[3 * number + 1] < end and not (is_error and at_ns < known_ns):
                    if is_error:
                        self._learned_ns = at_ns  # it may have been over in a lost response
                    return False
                known_ns = max(known_ns, at_ns)
            if known_ns < 0:
                self._learned_ns = -1
                return False
            newest_ns = max(newest_ns, known_ns)
        self._learned_ns = newest_ns
        return newest_ns >= 0 and latency_ns > apart(request_ns, newest_ns)

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


def apart(late_ns: int, early_ns: int) -> int:
    """Return the time between two times in ns, limited to about 146 years."""
    if -_LONGEST_NS < late_ns < _LONGEST_NS and -_LONGEST_NS < early_ns < _LONGEST_NS:
        between_ns = late_ns - early_ns
    else:
        between_ns = _LONGEST_NS if late_ns > early_ns else -_LONGEST_NS
    return max(-_LONGEST_NS, min(_LONGEST_NS, between_ns))


def _of(values: dict[int, Value], connections: Collection[int]) -> dict[int, Value]:
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

    _NOT_SAVED = ("_topics", "keys", "list_number", "listed_changes", "listed_names", "used")

    def __init__(self, topics: TopicTable) -> None:
        self._topics = topics
        self.list_number = self.listed_changes = self.listed_names = -1
        """The list that rows refer to (see :class:`.SessionListWriter`), -1 for none, and the
        changes of the session and of names before it was written."""
        self.used = 0
        """The later its last fetch, the higher."""
        self.next_epoch = 1
        self.keys = KeyTable()
        """The topic, its id and the partition of each, as numbers."""
        self.changes = 0
        """Number of partitions added or removed so far."""

    @property
    def partitions(self) -> dict[SessionPartition, None]:
        """The partitions, in the order in which they were added."""
        topics = self._topics
        return {
            (topics.name(topic), topics.id(topic_id), partition): None
            for _, topic, topic_id, partition in self.keys
        }

    @partitions.setter
    def partitions(self, partitions: dict[tuple[str | None, bytes | None, int], None]) -> None:
        self.keys.clear()
        for topic, topic_id, partition in partitions:
            number = self._topics.number_of_id(bytes(16) if topic_id is None else topic_id)
            self.keys.add(0, self._topics.number_of(topic), number, partition)

    def change(self, added: PartitionColumns, forgotten: PartitionColumns) -> int:
        """Add and remove partitions; return by how much their number grew."""
        grown = 0
        for index in range(forgotten.count):
            entry = forgotten.entry_in(self.keys, 0, index, False)
            if entry >= 0:
                self.keys.remove(entry)
                grown -= 1
                self.changes += 1
        return grown + self.add(added)

    def add(self, added: PartitionColumns) -> int:
        """Add partitions; return by how much their number grew.

        A client names a partition again if its fetch offset has changed.
        """
        grown = 0
        for index in range(added.count):
            if added.entry_in(self.keys, 0, index, False) < 0:
                added.entry_in(self.keys, 0, index, True)
                grown += 1
                self.changes += 1
        return grown


class FetchSessions:
    """The sessions of all connections; bounded, the least recently used are removed first.

    In a broker, a session can outlive its connection. But a client that reconnects begins a new
    session.
    """

    _NOT_SAVED = (
        *("_fetches", "_keys", "_most_partitions", "_most_sessions", "_none", "_partitions"),
        *("_queue", "_sessions", "_topics"),
    )

    def __init__(
        self,
        topics: TopicTable | None = None,
        *,
        most_sessions: int = _MAX_SESSIONS,
        most_partitions: int = _MAX_SESSION_PARTITIONS,
    ) -> None:
        """``topics`` numbers the topics of the summaries; None for a table of its own."""
        self._topics = TopicTable() if topics is None else topics
        self._none = FetchSession(self._topics)
        self._keys = KeyTable()
        """Connection and session id of each session."""
        self._sessions: list[FetchSession | None] = []
        """By entry of ``_keys``; None for one that was removed."""
        self._queue: list[tuple[int, int, int]] = []
        """The sessions at some time, by use, the oldest last: as use, connection and id."""
        self._fetches = 0
        self._most_sessions = most_sessions
        self._most_partitions = most_partitions
        self._partitions = 0

    def state(self, connections: Collection[int]) -> State:
        """Return what :meth:`from_state` takes: the sessions of some connections."""
        states: list[State] = []
        for _, connection, session_id in sorted(self._uses()):
            if connection in connections:
                session = self._sessions[self._keys.find(connection, session_id, 0, 0)]
                states.append((connection, session_id, save(session)))
        return tuple(states)

    def _uses(self) -> list[tuple[int, int, int]]:
        """Return the last use, the connection and the id of each session."""
        known = [session for session in self._sessions if session is not None]
        return [
            (session.used, key[0], key[1]) for session, key in zip(known, self._keys, strict=True)
        ]

    def forget_topics(self) -> None:
        """Forget all sessions, because topics get other numbers."""
        self._keys.clear()
        self._sessions, self._queue = [], []
        self._partitions = 0

    @classmethod
    def from_state(cls, state: object, topics: TopicTable) -> FetchSessions:
        """Make the sessions from a state; raises ValueError for any other value."""
        sessions = cls(topics)
        sessions._load(state)
        return sessions

    def _load(self, state: object) -> None:
        """Add the sessions of a state; raises ValueError for any other value."""
        for item in items(state, "t"):
            connection, session_id, session_state = fields(item, "nit")
            session = FetchSession(self._topics)
            load(session, session_state)
            self._forget(connection, session_id)
            self._put(connection, session_id, session)
        if self._partitions > self._most_partitions or len(self) > self._most_sessions:
            raise ValueError("too many fetch sessions")

    def __len__(self) -> int:
        return len(self._keys)

    def follow(self, connection: int, fetch: FetchSessionUpdate) -> FetchSession:
        """Apply a fetch to its session; return the session, which is valid until the next call.

        The session is empty for a full fetch, which names all its partitions, and if its partitions
        are unknown.
        """
        if fetch.epoch > 0:
            return self._incremental(connection, fetch)
        if fetch.session_id != _NO_SESSION:
            self._forget(connection, fetch.session_id)
        if fetch.epoch != _FINAL_EPOCH and fetch.has_new_id() and fetch.error_code == 0:
            self._begin(connection, fetch.response_session_id, fetch.named)
        return self._none

    def _begin(self, connection: int, session_id: int, named: PartitionColumns) -> None:
        self._forget(connection, session_id)
        if named.count > self._most_partitions:
            return
        session = FetchSession(self._topics)
        session.add(named)
        session.changes = 0
        self._put(connection, session_id, session)
        self._drop_oldest()

    def _put(self, connection: int, session_id: int, session: FetchSession) -> None:
        """Add a session that is not there."""
        removed = self._keys.removed
        self._keys.add(connection, session_id, 0, 0)
        if removed > self._keys.removed:  # entries have new numbers, without gaps
            self._sessions = [each for each in self._sessions if each is not None]
        self._sessions.append(session)
        self._use(session)
        self._partitions += len(session.keys)

    def _use(self, session: FetchSession) -> None:
        self._fetches += 1
        session.used = self._fetches

    def _incremental(self, connection: int, fetch: FetchSessionUpdate) -> FetchSession:
        entry = self._keys.find(connection, fetch.session_id, 0, 0)
        if entry < 0:
            return self._none
        session = self._sessions[entry]
        assert session is not None
        if fetch.error_code != 0 or fetch.epoch != session.next_epoch:
            # The broker refused the fetch, or an earlier fetch of the session was not captured.
            self._forget(connection, fetch.session_id)
            return self._none
        session.next_epoch = 1 if fetch.epoch == _HIGHEST_EPOCH else fetch.epoch + 1
        self._use(session)
        if fetch.named.count or fetch.forgotten.count:
            self._partitions += session.change(fetch.named, fetch.forgotten)
            self._drop_oldest()
        return session

    def _forget(self, connection: int, session_id: int) -> None:
        entry = self._keys.find(connection, session_id, 0, 0)
        if entry < 0:
            return
        session, self._sessions[entry] = self._sessions[entry], None
        assert session is not None
        self._keys.remove(entry)
        self._partitions -= len(session.keys)

    def _drop_oldest(self) -> None:
        """Drop the least recently used sessions while there are too many sessions or partitions."""
        while len(self) > self._most_sessions or self._partitions > self._most_partitions:
            if not self._queue:
                self._queue = sorted(self._uses(), reverse=True)
            used, connection, session_id = self._queue.pop()
            entry = self._keys.find(connection, session_id, 0, 0)
            session = self._sessions[entry] if entry >= 0 else None
            # All that were used or added since the queue was made are later than the rest of it.
            if session is not None and session.used == used:
                self._forget(connection, session_id)
