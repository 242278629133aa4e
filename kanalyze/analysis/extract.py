"""What a row says of a message's body: partitions, errors, ids, waiting; one function an API.

In: the decoded values of a request and its response, in the shapes that the projections here ask
for. Out: a :class:`Facts`. This module must not know of packets, times or how values are read.

Topic ids are 16 bytes here; a :class:`~kanalyze.analysis.topics.TopicNames` names them.

Compiled by Cython, with the types in ``extract.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kanalyze.analysis.facts import Facts, Part
from kanalyze.analysis.interests import BodyWalk, ids_in, projection_of
from kanalyze.analysis.sessions import SessionFacts
from kanalyze.analysis.waits import Delivery
from kanalyze.protocol.projection import Projection

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.compiled import cython

if not cython.compiled:
    from kanalyze.analysis.facts import known_offset, new_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.analysis.sessions import Place
    from kanalyze.protocol.catalog import Catalog
    from kanalyze.protocol.records import RecordsSummary

__all__ = ["FETCH", "PRODUCE", "SHARE_FETCH", "Extractors"]

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
OFFSET_FETCH, FIND_COORDINATOR = 9, 10
SYNC_GROUP, SASL_HANDSHAKE, SASL_AUTHENTICATE = 14, 17, 36
SHARE_FETCH = 78
_HEARTBEATS = frozenset({68, 76})
"""Of the newer groups; they bring assignments."""

_T = TypeVar("_T")

_NO_ID = bytes(16)
_GROUP_KEY, _TRANSACTION_KEY = 0, 1


class _Extractor:
    """The fields that a row needs of an API, and what finds facts in them."""

    __slots__ = ("fill", "request", "response")

    def __init__(
        self,
        request: Projection,
        response: Projection,
        fill: Callable[[Facts, Any, Any], None],
    ) -> None:
        self.request = request
        self.response = response
        self.fill = fill


class Extractors:
    """The extractor of every API; those not named here are made from their definitions."""

    __slots__ = ("_catalog", "_extractors")

    def __init__(self, catalog: Catalog) -> None:
        """Make the table; the definitions of an API are read when it is first met."""
        self._catalog = catalog
        self._extractors: dict[int, _Extractor] = {
            PRODUCE: _Extractor(_PRODUCE_REQUEST, _PRODUCE_RESPONSE, _produce),
            FETCH: _Extractor(_FETCH_REQUEST, _FETCH_RESPONSE, _fetch),
            LIST_OFFSETS: _Extractor(_LIST_REQUEST, _LIST_RESPONSE, _list_offsets),
            OFFSET_FETCH: _Extractor(_OFFSETS_REQUEST, _OFFSETS_RESPONSE, _offset_fetch),
            FIND_COORDINATOR: _Extractor(_FIND_REQUEST, _FIND_RESPONSE, _find_coordinator),
            SYNC_GROUP: _Extractor(_SYNC_REQUEST, _SYNC_RESPONSE, _sync_group),
        }

    def wanted(self, api_key: int, kind: str) -> Projection:
        """Return the fields that a row needs of the API's ``request`` or ``response``."""
        extractor = self._of(api_key)
        return extractor.request if kind == "request" else extractor.response

    def facts(self, api_key: int | None, request: Any, response: Any) -> Facts:
        """Return what the bodies of an exchange say; either may be None, when it was not read."""
        facts = Facts()
        if api_key is not None:
            extractor = self._of(api_key)
            extractor.fill(facts, request, response)
        return facts

    def _of(self, api_key: int) -> _Extractor:
        extractor = self._extractors.get(api_key)
        if extractor is None:
            extractor = self._make(api_key)
            if self._catalog.api(api_key) is not None:
                self._extractors[api_key] = extractor
        return extractor

    def _make(self, api_key: int) -> _Extractor:
        if self._catalog.api(api_key) is None:
            return _Extractor(Projection.of(), Projection.of(), _nothing)
        request = self._catalog.message(api_key, "request")
        response = self._catalog.message(api_key, "response")
        request_ids, response_ids = ids_in(request), ids_in(response)
        asked_walk, walk = BodyWalk(request), BodyWalk(response)
        names_in_request = asked_walk.finds_names

        def fill(facts: Facts, asked: Any, answered: Any) -> None:
            parts: list[Part] = []
            if asked is not None:
                _set_ids(facts, request_ids, asked)
                if names_in_request:
                    asked_walk(asked, [], facts.names)
                parts += asked_walk.partitions(asked)
            if answered is not None:
                _set_ids(facts, response_ids, answered)
                walk(answered, facts.errors, facts.names)
                told = walk.partitions(answered)
                parts += told
                facts.delivery = _delivery(api_key, facts, told)
            facts.parts = _each_once(parts, dict(facts.names))

        return _Extractor(projection_of(request), projection_of(response), fill)


def _each_once(parts: list[Part], names: dict[bytes, str]) -> list[Part]:
    """Return every partition once, where it is named first, with all that is said of it.

    Request and response may name the same topic in different ways: ``names`` are those that the two
    of them tell.
    """
    known: dict[tuple[str | bytes, int | None], Part] = {}
    for part in parts:
        topic = part.topic or names.get(part.topic_id) or part.topic_id
        before = known.setdefault((topic, part.partition), part)
        if before is not part:
            known[topic, part.partition] = _joined(before, part)
    return list(known.values())


def _joined(first: Part, second: Part) -> Part:
    """Return what two mentions of a partition say together; of both the first code but 0 holds."""
    made = new_part(first.topic or second.topic, first.topic_id, first.partition)
    if first.topic_id == _NO_ID:
        made.topic_id = second.topic_id
    made.record_count = _first(first.record_count, second.record_count)
    made.record_bytes = _first(first.record_bytes, second.record_bytes)
    made.base_offset = _first(first.base_offset, second.base_offset)
    made.high_watermark = _first(first.high_watermark, second.high_watermark)
    made.codec = _first(first.codec, second.codec)
    made.error_code = (
        first.error_code or second.error_code or _first(first.error_code, second.error_code)
    )
    made.last_offset = _first(first.last_offset, second.last_offset)
    return made


def _first(one: _T | None, other: _T | None) -> _T | None:
    """Return the first that is known."""
    return other if one is None else one


def _delivery(api_key: int, facts: Facts, told: list[Part]) -> Delivery | None:
    """Return what a response brought that may have been held back until there was something."""
    failed = bool(facts.errors)
    if api_key in _HEARTBEATS:
        return Delivery(None, is_enough=bool(told), is_all=True, failed=failed)
    if api_key != SHARE_FETCH or facts.max_wait_ms is None or facts.min_bytes is None:
        return None
    size = sum(part.record_bytes or 0 for part in told)
    count = sum(part.record_count or 0 for part in told)
    return Delivery(
        # The one that ends the session only acknowledges.
        0 if facts.share_epoch == _FINAL_EPOCH or facts.min_bytes <= 0 else facts.max_wait_ms,
        is_enough=size >= facts.min_bytes,
        # Batches are never cut: one that did not fit may have been larger than the room left.
        is_all=(not facts.max_records or count < facts.max_records)
        and size < (facts.max_bytes or 0) // 2,
        failed=failed,
    )


_FINAL_EPOCH = -1


def _nothing(facts: Facts, asked: Any, answered: Any) -> None:
    """Unknown API: there is nothing to be found."""


def _set_ids(facts: Facts, places: dict[str, int], values: tuple[Any, ...]) -> None:
    for name, index in places.items():
        value = values[index]
        # A member joins with an empty id and learns its own from the response.
        if value is not None and value != "":
            setattr(facts, name, value)


# -- Produce --------------------------------------------------------------------------------------

_PRODUCE_REQUEST = Projection.of(
    "TransactionalId",
    "Acks",
    "TopicData.Name",
    "TopicData.TopicId",
    "TopicData.PartitionData.Index",
    "TopicData.PartitionData.Records",
)
_PRODUCE_RESPONSE = Projection.of(
    "Responses.Name",
    "Responses.TopicId",
    "Responses.PartitionResponses.Index",
    "Responses.PartitionResponses.ErrorCode",
    "Responses.PartitionResponses.BaseOffset",
    "ThrottleTimeMs",
)


def _produce(facts: Facts, asked: Any, answered: Any) -> None:
    results: dict[tuple[str, bytes, int], tuple[int, int]] = {}
    if answered is not None:
        topics, facts.throttle_time_ms = answered
        for topic, topic_id, partitions in topics:
            for partition, code, base_offset in partitions:
                results[topic, topic_id, partition] = (code, base_offset)
                if code:
                    facts.errors.append((topic, topic_id, partition, code))
    parts = facts.parts
    if asked is None:
        for place, result in results.items():
            topic, topic_id, partition = place
            part = new_part(topic, topic_id, partition)
            part.error_code, base_offset = result
            part.base_offset = known_offset(base_offset)
            parts.append(part)
        return
    facts.transactional_id, facts.acks, topics = asked
    for topic, topic_id, partitions in topics:
        for partition, records in partitions:
            part = new_part(topic, topic_id, partition)
            _count_records(part, records)
            found = results.get((topic, topic_id, partition))
            if found is not None:
                part.error_code, base_offset = found
                part.base_offset = known_offset(base_offset)
            parts.append(part)


def _count_records(part: Part, records: RecordsSummary | None) -> None:
    """Say how many records there are of a partition; none at all where they are null."""
    if records is None:
        part.record_count = part.record_bytes = 0
        return
    part.record_bytes = records.record_bytes
    part.record_count = records.record_count
    part.codec = records.codec


# -- Fetch ----------------------------------------------------------------------------------------

_FETCH_REQUEST = Projection.of(
    "MaxWaitMs",
    "MinBytes",
    "SessionId",
    "SessionEpoch",
    "Topics.Topic",
    "Topics.TopicId",
    "Topics.Partitions.Partition",
    "ForgottenTopicsData.Topic",
    "ForgottenTopicsData.TopicId",
    "ForgottenTopicsData.Partitions",
)
_FETCH_RESPONSE = Projection.of(
    "ThrottleTimeMs",
    "ErrorCode",
    "SessionId",
    "Responses.Topic",
    "Responses.TopicId",
    "Responses.Partitions.PartitionIndex",
    "Responses.Partitions.ErrorCode",
    "Responses.Partitions.HighWatermark",
    "Responses.Partitions.Records",
)


def _fetch(facts: Facts, asked: Any, answered: Any) -> None:
    parts = facts.parts
    seen: set[Place] = set()
    answered_id, top_code = None, 0
    if answered is not None:
        facts.throttle_time_ms, top_code, answered_id, topics = answered
        if top_code:
            facts.errors.append((None, _NO_ID, None, top_code))
        for topic, topic_id, partitions in topics:
            for partition, code, high_watermark, records in partitions:
                seen.add((topic, topic_id, partition))
                if code:
                    facts.errors.append((topic, topic_id, partition, code))
                part = new_part(topic, topic_id, partition)
                _count_records(part, records)
                if records is not None:
                    part.base_offset = records.base_offset
                    part.last_offset = records.last_offset
                part.high_watermark = known_offset(high_watermark)
                part.error_code = code
                parts.append(part)
    if asked is None:
        return
    facts.max_wait_ms, facts.min_bytes, session_id, epoch, topics, forgotten = asked
    places: list[Place] = []
    for topic, topic_id, partitions in topics:
        for one in partitions:
            place = (topic, topic_id, one[0])
            places.append(place)
            # A fetch session's response leaves out the partitions that have nothing new.
            if place not in seen:
                parts.append(new_part(topic, topic_id, one[0]))
    if session_id or epoch >= 0:
        gone = [(topic, topic_id, index) for topic, topic_id, some in forgotten for index in some]
        facts.session = SessionFacts(session_id, epoch, places, gone, answered_id, top_code)


# -- SyncGroup -------------------------------------------------------------------------------------

_SYNC_REQUEST = Projection.of("GroupId", "MemberId", "Assignments.MemberId")
_SYNC_RESPONSE = Projection.of("ThrottleTimeMs", "ErrorCode")


def _sync_group(facts: Facts, asked: Any, answered: Any) -> None:
    if asked is not None:
        group_id, member_id, assignments = asked
        facts.group_id, facts.member_id = group_id or None, member_id or None
        facts.leads = bool(assignments)
    if answered is not None:
        facts.throttle_time_ms, code = answered
        if code:
            facts.errors.append((None, _NO_ID, None, code))


# -- ListOffsets ----------------------------------------------------------------------------------

_LIST_REQUEST = Projection.of("Topics.Name", "Topics.Partitions.PartitionIndex")
_LIST_RESPONSE = Projection.of(
    "ThrottleTimeMs",
    "Topics.Name",
    "Topics.Partitions.PartitionIndex",
    "Topics.Partitions.ErrorCode",
    "Topics.Partitions.OldStyleOffsets",
    "Topics.Partitions.Offset",
)


def _list_offsets(facts: Facts, asked: Any, answered: Any) -> None:
    if answered is None:
        if asked is not None:
            facts.parts = [
                Part(topic, _NO_ID, partition)
                for topic, partitions in asked[0]
                for (partition,) in partitions
            ]
        return
    facts.throttle_time_ms, topics = answered
    for topic, partitions in topics:
        for partition, code, old_offsets, offset in partitions:
            if code:
                facts.errors.append((topic, _NO_ID, partition, code))
            if old_offsets:
                offset = old_offsets[0]  # noqa: PLW2901 - version 0 lists offsets, newest first
            facts.parts.append(
                Part(topic, _NO_ID, partition, base_offset=known_offset(offset), error_code=code)
            )


# -- OffsetFetch ----------------------------------------------------------------------------------

_OFFSETS_REQUEST = Projection.of(
    "GroupId",
    "Topics.Name",
    "Topics.PartitionIndexes",
    "Groups.GroupId",
    "Groups.Topics.Name",
    "Groups.Topics.TopicId",
    "Groups.Topics.PartitionIndexes",
)
_OFFSETS_RESPONSE = Projection.of(
    "ThrottleTimeMs",
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


def _offset_fetch(facts: Facts, asked: Any, answered: Any) -> None:
    if asked is not None:
        group_id, old_topics, groups = asked
        # From version 8 on a request asks for several groups; one is the rule.
        facts.group_id = group_id or (groups[0][0] if len(groups) == 1 else None)
        if answered is None:
            topics = [(name, _NO_ID, partitions) for name, partitions in old_topics or ()]
            for _, group_topics in groups:
                topics.extend(group_topics or ())
            facts.parts = [
                Part(topic, topic_id, partition)
                for topic, topic_id, partitions in topics
                for partition in partitions
            ]
    if answered is None:
        return
    facts.throttle_time_ms, old_topics, top_code, groups = answered
    _committed(facts, [(name, _NO_ID, partitions) for name, partitions in old_topics])
    if top_code:
        facts.errors.append((None, _NO_ID, None, top_code))
    for topics, group_code in groups:
        _committed(facts, topics)
        if group_code:
            facts.errors.append((None, _NO_ID, None, group_code))


def _committed(facts: Facts, topics: list[tuple[str, bytes, list[Any]]]) -> None:
    for topic, topic_id, partitions in topics:
        for partition, offset, code in partitions:
            if code:
                facts.errors.append((topic, topic_id, partition, code))
            facts.parts.append(
                Part(topic, topic_id, partition, base_offset=known_offset(offset), error_code=code)
            )


# -- FindCoordinator ------------------------------------------------------------------------------

_FIND_REQUEST = Projection.of("Key", "KeyType", "CoordinatorKeys")
_FIND_RESPONSE = Projection.of("ThrottleTimeMs", "ErrorCode", "Coordinators.ErrorCode")


def _find_coordinator(facts: Facts, asked: Any, answered: Any) -> None:
    if asked is not None:
        key, key_type, keys = asked
        if not key and len(keys) == 1:
            key = keys[0]
        if key_type == _GROUP_KEY:
            facts.group_id = key or None
        elif key_type == _TRANSACTION_KEY:
            facts.transactional_id = key or None
    if answered is None:
        return
    facts.throttle_time_ms, top_code, coordinators = answered
    if top_code:
        facts.errors.append((None, _NO_ID, None, top_code))
    facts.errors.extend((None, _NO_ID, None, code) for (code,) in coordinators if code)
