"""Combines a request and its response: partitions, errors, ids, long polls.

In: the decoded fields of the two, as selected here. Out: an
:class:`~kanalyze.tables.requests.summaries.ExchangeSummary`.

A :class:`~kanalyze.tables.requests.summaries.BodyWalk` reads each body. This module decides which
values of a partition come from the request and which from the response. APIs that deviate from the
rule have a function of their own.

Topic ids are 16 bytes here. A :class:`~kanalyze.tables.requests.topic_names.TopicNames` finds their
names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.codec.compiler import Projection
from kanalyze.tables.requests.field_selection import field_roles, newer_columns, projection_of
from kanalyze.tables.requests.long_polls import HEARTBEAT_APIS, longest_wait_ms
from kanalyze.tables.requests.summaries import (
    BodyWalk,
    Delivery,
    ExchangeSummary,
    FetchSessionUpdate,
    PartitionColumns,
)
from kanalyze.tables.requests.topics import TopicTable

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import cython  # addresses of structs are the structs
    from kanalyze.kafka.session.exchange import NO_API
    from kanalyze.tables.requests.summaries import (
        BASE_OFFSET,
        ERROR_CODE,
        GROUP_ID,
        KEY,
        KEY_TYPE,
        LAST_OFFSET,
        MAX_BYTES,
        MAX_RECORDS,
        MIN_BYTES,
        NO_NUMBER,
        RECORD_COUNT,
        RESPONSE_SESSION_ID,
        SESSION_EPOCH,
        SESSION_ID,
        TOPIC,
        TOPIC_ID,
        TRANSACTIONAL_ID,
    )
    from kanalyze.tables.requests.topics import NO_TOPIC

OF_PRODUCE, OF_FETCH, OF_LIST_OFFSETS, OF_OFFSET_FETCH, OF_FIND_COORDINATOR = 0, 1, 2, 9, 10

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.exchange import Exchange

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
OFFSET_FETCH, FIND_COORDINATOR = 9, 10
JOIN_GROUP, SYNC_GROUP = 11, 14
CONSUMER_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT = 68, 88
SHARE_FETCH = 78

_GROUP_KEY, _TRANSACTION_KEY = 0, 1

_NOTHING = Projection.of()
_PRODUCE_REQUEST = (
    "TopicData.Name",
    "TopicData.TopicId",
    "TopicData.PartitionData.Index",
    "TopicData.PartitionData.Records",
)
_PRODUCE_RESPONSE = (
    "Responses.Name",
    "Responses.TopicId",
    "Responses.PartitionResponses.Index",
    "Responses.PartitionResponses.ErrorCode",
    "Responses.PartitionResponses.BaseOffset",
)

_FETCH_REQUEST = (
    "ReplicaId",
    "ReplicaState.ReplicaId",
    "SessionId",
    "SessionEpoch",
    "Topics.Topic",
    "Topics.TopicId",
    "Topics.Partitions.Partition",
    "ForgottenTopicsData.Topic",
    "ForgottenTopicsData.TopicId",
    "ForgottenTopicsData.Partitions",
)
_FETCH_RESPONSE = (
    "ErrorCode",
    "SessionId",
    "Responses.Topic",
    "Responses.TopicId",
    "Responses.Partitions.PartitionIndex",
    "Responses.Partitions.ErrorCode",
    "Responses.Partitions.HighWatermark",
    "Responses.Partitions.PreferredReadReplica",
    "Responses.Partitions.Records",
)

_LIST_REQUEST = ("Topics.Name", "Topics.Partitions.PartitionIndex")
_LIST_RESPONSE = (
    "Topics.Name",
    "Topics.Partitions.PartitionIndex",
    "Topics.Partitions.ErrorCode",
    "Topics.Partitions.OldStyleOffsets",
    "Topics.Partitions.Offset",
)

_OFFSETS_REQUEST = (
    "Topics.Name",
    "Topics.PartitionIndexes",
    "Groups.GroupId",
    "Groups.Topics.Name",
    "Groups.Topics.TopicId",
    "Groups.Topics.PartitionIndexes",
)
_OFFSETS_RESPONSE = (
    "Topics.Name",
    "Topics.Partitions.PartitionIndex",
    "Topics.Partitions.CommittedOffset",
    "Topics.Partitions.ErrorCode",
    "ErrorCode",
    "Groups.Topics.Name",
    "Groups.Topics.TopicId",
    "Groups.Topics.Partitions.PartitionIndex",
    "Groups.Topics.Partitions.CommittedOffset",
    "Groups.Topics.Partitions.ErrorCode",
    "Groups.ErrorCode",
)

_FIND_REQUEST = ("Key", "KeyType", "CoordinatorKeys")
_FIND_RESPONSE = ("ErrorCode", "Coordinators.ErrorCode")

_SYNC_REQUEST = ("Assignments.MemberId",)
_SYNC_RESPONSE = ("ErrorCode",)

_BY_HAND = {
    PRODUCE: (_PRODUCE_REQUEST, _PRODUCE_RESPONSE),
    FETCH: (_FETCH_REQUEST, _FETCH_RESPONSE),
    LIST_OFFSETS: (_LIST_REQUEST, _LIST_RESPONSE),
    OFFSET_FETCH: (_OFFSETS_REQUEST, _OFFSETS_RESPONSE),
    FIND_COORDINATOR: (_FIND_REQUEST, _FIND_RESPONSE),
    SYNC_GROUP: (_SYNC_REQUEST, _SYNC_RESPONSE),
}
"""The fields that a row needs of some APIs, in addition to those that columns are declared to have.
For other APIs the definitions decide."""
_ROLES = {
    (PRODUCE, "response"): {"Responses.PartitionResponses.BaseOffset": "offset"},
    (FETCH, "request"): {
        "ReplicaId": "replica_id",
        "ReplicaState.ReplicaId": "replica_id",
        "SessionId": "session_id",
        "SessionEpoch": "session_epoch",
        "ForgottenTopicsData": "forgotten",
    },
    (FETCH, "response"): {"SessionId": "response_session_id"},
    (LIST_OFFSETS, "response"): {"Topics.Partitions.OldStyleOffsets": "old_offsets"},
    (OFFSET_FETCH, "request"): {"Groups.GroupId": "requested_group"},
    (FIND_COORDINATOR, "request"): {"Key": "key", "KeyType": "key_type", "CoordinatorKeys": "keys"},
    (SYNC_GROUP, "request"): {"Assignments": "has_assignments"},
}
"""Roles that do not follow from the definitions of these fields."""


_NEWER = {
    (FETCH, "request"): frozenset({"ReplicaId", "ReplicaState.ReplicaId"}),
    (FETCH, "response"): frozenset({"Responses.Partitions.PreferredReadReplica"}),
    **{
        (api_key, "request"): frozenset({"RebalanceTimeoutMs", "SessionTimeoutMs"})
        for api_key in (JOIN_GROUP, CONSUMER_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT)
    },
}
"""Fields that a row did not need yet when the last format of states was written, other than those
of columns."""


class _Extractor:
    """The fields that a row needs of an API, and the walks that read them.

    Attributes:
        api_key: the API's key if it is in :data:`_BY_HAND`; else -1.
        delivers: whether a broker may delay the response until it has something to send.
    """

    def __init__(
        self,
        api_key: int,
        request_fields: Projection,
        response_fields: Projection,
        request: BodyWalk | None,
        response: BodyWalk | None,
    ) -> None:
        self.api_key = api_key if api_key in _BY_HAND else -1
        self.delivers = api_key in HEARTBEAT_APIS or api_key == SHARE_FETCH
        self.request_fields = request_fields
        self.response_fields = response_fields
        self.request = request
        self.response = response


class Extractors:
    """The extractors of all APIs."""

    def __init__(
        self, catalog: Catalog, more: Mapping[tuple[int, str], Projection] | None = None
    ) -> None:
        """Make the extractors; the definitions of an API are read when it is first needed.

        ``more`` selects additional fields of an API's ``request`` or ``response``. They are
        decoded, but do not change a summary.
        """
        self._catalog = catalog
        self._more = dict(more or {})
        self.topics = TopicTable()
        """The numbers of topics in summaries."""
        self._extractors: dict[int, _Extractor] = {}
        self._last: _Extractor | None = None
        self._last_key = NO_API
        self._summary = ExchangeSummary(self.topics)
        self._requested, self._responded, self._both, self._forgotten = (
            PartitionColumns(self.topics) for _ in range(4)
        )
        self._session = FetchSessionUpdate(self._requested, self._forgotten)

    def needed_fields(self, api_key: int, kind: str) -> Projection:
        """Return the fields to decode in the API's ``request`` or ``response``."""
        extractor = self._of(api_key)
        return extractor.request_fields if kind == "request" else extractor.response_fields

    def of_exchange(self, exchange: Exchange) -> ExchangeSummary:
        """Return the summary of an exchange.

        It is the same object each time; its values are valid until the next call.
        """
        summary, extractor = self._begin(exchange.key), self._last
        request, response = exchange.request, exchange.response
        has_request = request is not None and request.cells >= 0
        has_response = response is not None and response.cells >= 0
        if extractor is not None and has_request and extractor.request is not None:
            assert request is not None
            assert request.shape is not None
            assert request.tape is not None
            extractor.request.read_cells(
                request.shape,
                request.tape,
                request.cells_at,
                request.arena_at,
                summary,
                self._requested,
                self._forgotten,
            )
        if extractor is not None and has_response and extractor.response is not None:
            assert response is not None
            assert response.shape is not None
            assert response.tape is not None
            extractor.response.read_cells(
                response.shape,
                response.tape,
                response.cells_at,
                response.arena_at,
                summary,
                self._responded,
                self._forgotten,
            )
        self._combine(exchange.key, has_request, has_response)
        return summary

    def _begin(self, key: int) -> ExchangeSummary:
        """Clear the summary; find the extractor of an API, None for ``NO_API``."""
        self._requested.clear()
        self._responded.clear()
        self._forgotten.clear()
        self._summary.clear(self._requested)
        if key != self._last_key:  # it is often that of the one before
            self._last, self._last_key = None if key == NO_API else self._of(key), key
        return self._summary

    def _combine(self, key: int, has_request: bool, has_response: bool) -> None:
        """Combine what was read of a request and of its response."""
        extractor, summary = self._last, self._summary
        if extractor is None:
            return
        special_key = extractor.api_key
        if special_key == OF_PRODUCE:
            self._produce(summary, has_request)
        elif special_key == OF_FETCH:
            self._fetch(summary, has_request)
        elif special_key in (OF_LIST_OFFSETS, OF_OFFSET_FETCH):
            # The response has all partitions of the request, so the request's are not needed.
            summary.partitions = self._responded if has_response else self._requested
            if special_key == OF_OFFSET_FETCH:
                _set_group(summary)
        elif special_key == OF_FIND_COORDINATOR:
            _set_key(summary)
        else:
            self._each_once(summary)
            if extractor.delivers and has_response:
                summary.delivery = _delivery(key, summary, self._responded)

    def _of(self, api_key: int) -> _Extractor:
        extractor = self._extractors.get(api_key)
        if extractor is None:
            extractor = self._make(api_key)
            if self._catalog.api(api_key) is not None:
                self._extractors[api_key] = extractor
        return extractor

    def _make(self, api_key: int) -> _Extractor:
        if self._catalog.api(api_key) is None:
            return _Extractor(api_key, Projection.of(), Projection.of(), None, None)
        request = self._catalog.message(api_key, "request")
        response = self._catalog.message(api_key, "response")
        by_hand = _BY_HAND.get(api_key)
        requested, responded = by_hand or (None, None)
        # The selection of SyncGroup is made by hand, but a SyncGroup has no topics: it is
        # read like an API whose selection is not made by hand.
        is_by_hand = by_hand is not None and api_key != SYNC_GROUP
        walks: list[BodyWalk] = []
        decoded: list[Projection] = []
        for kind, message, paths in (
            ("request", request, requested),
            ("response", response, responded),
        ):
            projection = projection_of(message, paths)
            more = self._more.get((api_key, kind), _NOTHING)
            newer = _NEWER.get((api_key, kind), frozenset()) | newer_columns(message)
            newer = newer.difference(more.paths)
            with_more = Projection.of(
                *projection.paths, *more.paths, newer=newer.intersection(projection.paths)
            )
            decoded.append(with_more)
            roles = field_roles(message, projection, _ROLES.get((api_key, kind)), with_more)
            is_request = kind == "request"
            walks.append(BodyWalk(roles, self.topics, is_request=is_request, by_hand=is_by_hand))
        return _Extractor(api_key, decoded[0], decoded[1], walks[0], walks[1])

    # -- partitions of request and response -------------------------------------------------------

    def _produce(self, summary: ExchangeSummary, has_request: bool) -> None:
        """Combine a Produce: the request has the records, the response errors and offsets."""
        requested, responded = self._requested, self._responded
        count = responded.count
        if not has_request:
            both = summary.partitions = self._both
            both.clear()
            # A partition that is repeated has its last values at the index of the first.
            for at in range(count):
                topic, topic_id = responded.number(at, TOPIC), responded.number(at, TOPIC_ID)
                if both.noted(topic, topic_id, responded.partition(at)) < 0:
                    answer = responded.index_of(responded, at, count)
                    both.note(topic, topic_id, both.copy(responded, answer))
            return
        for at in range(requested.count):
            requested.forget(at, BASE_OFFSET)
            requested.forget(at, LAST_OFFSET)
            answer = responded.index_of(requested, at, count)
            if answer < 0:
                continue
            requested.put(at, ERROR_CODE, responded.number(answer, ERROR_CODE))
            if responded.has(answer, BASE_OFFSET):
                requested.put(at, BASE_OFFSET, responded.number(answer, BASE_OFFSET))

    def _fetch(self, summary: ExchangeSummary, has_request: bool) -> None:
        """Combine a Fetch: the response has the records, but only partitions with news."""
        requested, responded = self._requested, self._responded
        summary.partitions = responded
        if not has_request:
            return
        self._follow_session(summary)
        count = responded.count
        for at in range(requested.count):
            # In a fetch session, a response leaves out partitions without news.
            if responded.index_of(requested, at, count) < 0:
                responded.copy(requested, at)

    def _each_once(self, summary: ExchangeSummary) -> None:
        """List every partition once, at its first index, with the values of both messages.

        One message may have a topic's name and the other its id. They are matched by the names
        that either message has for an id.
        """
        requested, responded = self._requested, self._responded
        if requested.count + responded.count <= 1:
            summary.partitions = responded if responded.count else requested
            return
        both = summary.partitions = self._both
        both.clear()
        names = dict(summary.pairs)
        for partitions in (requested, responded):
            for at in range(partitions.count):
                topic, topic_id = partitions.number(at, TOPIC), partitions.number(at, TOPIC_ID)
                if topic <= 0 and summary.pairs:
                    topic = names.get(topic_id, NO_TOPIC)
                if topic > 0:
                    topic_id = 0
                else:  # a topic without a name is known by its id alone
                    topic = NO_TOPIC
                before = both.noted(topic, topic_id, partitions.partition(at))
                if before < 0:
                    both.note(topic, topic_id, both.copy(partitions, at))
                else:
                    _join(both, before, partitions, at)

    def _follow_session(self, summary: ExchangeSummary) -> None:
        """Set what a fetch changes in its session; nothing for a fetch without a session."""
        if not (summary.has(SESSION_ID) and summary.has(SESSION_EPOCH)):
            return
        session_id = summary.number_or(SESSION_ID, NO_NUMBER)
        epoch = summary.number_or(SESSION_EPOCH, NO_NUMBER)
        if session_id == 0 and epoch < 0:
            return
        answered = summary.number_or(RESPONSE_SESSION_ID, NO_NUMBER)
        self._session.set(session_id, epoch, answered, summary.code)
        summary.session = self._session


def _join(partitions: PartitionColumns, to: int, source: PartitionColumns, at: int) -> None:
    """Add the values of the same partition in another message; the first error code counts."""
    if partitions.number(to, TOPIC) <= 0:
        partitions.put(to, TOPIC, source.number(at, TOPIC))
    if partitions.number(to, TOPIC_ID) == 0:
        partitions.put(to, TOPIC_ID, source.number(at, TOPIC_ID))
    for column in range(RECORD_COUNT, TOPIC):
        is_open = not partitions.has(to, column)
        if column == ERROR_CODE and not is_open:
            is_open = partitions.number(to, column) == 0
        if is_open and source.has(at, column):
            partitions.put(to, column, source.number(at, column))


def _delivery(
    api_key: int, summary: ExchangeSummary, delivered: PartitionColumns
) -> Delivery | None:
    """Return what the response delivered; None if the request has no limit for a delay."""
    failed = bool(summary.errors)
    if api_key in HEARTBEAT_APIS:
        return Delivery(None, is_enough=delivered.count > 0, is_all=True, failed=failed)
    wait_ms, min_bytes = longest_wait_ms(summary), summary.number(MIN_BYTES)
    if wait_ms is None or min_bytes is None:
        return None
    max_bytes, max_records = summary.number(MAX_BYTES), summary.number(MAX_RECORDS)
    size = sum([part.record_bytes or 0 for part in delivered])
    count = sum([part.record_count or 0 for part in delivered])
    return Delivery(
        wait_ms,
        is_enough=size >= min_bytes,
        # Batches are not cut: the next batch may have been larger than the remaining room.
        is_all=(not max_records or count < max_records) and size < (max_bytes or 0) // 2,
        failed=failed,
    )


def _set_group(summary: ExchangeSummary) -> None:
    """Set the group of an OffsetFetch; from version 8 on only if it names a single group."""
    if not summary.text(GROUP_ID):
        summary.set_text(GROUP_ID, summary.first_group if summary.groups == 1 else None)


def _set_key(summary: ExchangeSummary) -> None:
    """Set the group or transaction that a FindCoordinator asks about."""
    key_type, key = summary.number(KEY_TYPE), summary.text(KEY) or None
    if key_type == _GROUP_KEY:
        summary.set_text(GROUP_ID, key)
    elif key_type == _TRANSACTION_KEY:
        summary.set_text(TRANSACTIONAL_ID, key)
