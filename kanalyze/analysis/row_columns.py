"""Rows of exchanges that come as columns, by column.

In: :class:`~kanalyze.connection.columns.ExchangeColumns`. Out: a draft of their rows, which lacks
what depends on earlier rows (topic names, and whether a fetch waited). This module must not know
of packets or bytes, nor of anything that is out of the ordinary: it says which exchanges are, and
gives them back as objects.

Only APIs of which there are many by nature have columns here: Produce, and Fetch without a fetch
session. What their rows say is what :mod:`kanalyze.analysis.extract` says; a test holds one
against the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kanalyze.analysis.block import Ints, Lists, RowBlock, Words
from kanalyze.analysis.extract import FETCH, PRODUCE
from kanalyze.protocol.error_codes import error_name
from kanalyze.protocol.lockstep import (
    CODECS,
    NO_CODEC,
    Elements,
    Ids,
    Numbers,
    RecordSets,
    Texts,
)
from kanalyze.protocol.lockstep_texts import coded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kanalyze.analysis.block import ColumnValues
    from kanalyze.connection.columns import ExchangeColumns
    from kanalyze.protocol.lockstep import Fields

__all__ = ["COLUMN_APIS", "Parts", "RowDraft", "draft_rows", "finished_block"]

COLUMN_APIS = frozenset({PRODUCE, FETCH})
_UNKNOWN_OFFSET = -1
_NO_SESSION_EPOCH = -1
_ID_BYTES = 16


class Parts(NamedTuple):
    """The partitions of rows; one entry each, by row, then in the order of the row."""

    offsets: NDArray[np.int64]
    """Where the partitions of each row begin, and at last where the last one's end."""
    topic: NDArray[np.int32]
    """Index in ``topics``; -1 where the message has none."""
    topics: list[str]
    topic_id: NDArray[np.int32]
    """Index in ``topic_ids``; -1 where the version has none."""
    topic_ids: list[bytes]
    partition: NDArray[np.int64]
    records: RecordSets
    base_offset: Ints
    high_watermark: Ints
    error_code: NDArray[np.int64]


class RowDraft(NamedTuple):
    """Rows of one API version, but for what other rows tell."""

    kept: NDArray[np.int64]
    """Which exchanges of the columns these are; the others are out of the ordinary."""
    exchanges: ExchangeColumns
    parts: Parts
    throttle_time_ms: NDArray[np.int64]
    acks: NDArray[np.int64] | None
    max_wait_ms: NDArray[np.int64] | None
    min_bytes: NDArray[np.int64] | None
    transactional_id: Words | None


def draft_rows(exchanges: ExchangeColumns) -> RowDraft | None:
    """Return the rows of those exchanges that are as usual; None where there are none.

    Usual means: the response speaks of the partitions that the request names, in the same order,
    no code stands above them, and no fetch session is involved.
    """
    draft = _DRAFTS.get(exchanges.api_key)
    if draft is None:
        return None
    kept = np.arange(len(exchanges))
    asked, answered = exchanges.asked, exchanges.answered
    usual = draft.usual(exchanges.data, asked, answered)
    if not usual.all():
        kept = np.flatnonzero(usual)
        if not len(kept):
            return None
        exchanges = exchanges.taken(kept)
    return draft.make(kept, exchanges)


class _Flat(NamedTuple):
    """Partitions of messages without their topics around them."""

    row: NDArray[np.int64]
    """Index of the message."""
    topic: Texts
    topic_id: Ids
    fields: Fields


def _flat(fields: Fields, topics: str, name: str, partitions: str) -> _Flat:
    outer = fields[topics]
    assert isinstance(outer, Elements)
    inner = outer.fields[partitions]
    names, ids = outer.fields[name], outer.fields["TopicId"]
    assert isinstance(inner, Elements)
    assert isinstance(names, Texts)
    assert isinstance(ids, Ids)
    owner = inner.owner
    return _Flat(
        outer.owner[owner],
        Texts(names.start[owner], names.length[owner]),
        Ids(ids.start[owner]),
        inner.fields,
    )


def _numbers(fields: Fields, name: str) -> NDArray[np.int64]:
    found = fields[name]
    assert isinstance(found, Numbers)
    return found.values


def _offsets(row: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """Return where the items of each row begin, of items in the order of their rows."""
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))])


def _same_partitions(
    data: NDArray[np.uint8],
    rows: int,
    asked: _Flat,
    answered: _Flat,
    index_names: tuple[str, str],
    *,
    distinct: bool,
) -> NDArray[np.bool_]:
    """Tell of which messages both sides name the same partitions in the same order.

    With ``distinct`` only those that name none of them twice.
    """
    named = np.bincount(asked.row, minlength=rows)
    same: NDArray[np.bool_] = named == np.bincount(answered.row, minlength=rows)
    if not same.all():
        ours, theirs = same[asked.row], same[answered.row]
        asked, answered = _only(asked, ours), _only(answered, theirs)
    topics = _topics(data, asked, answered)
    index = _numbers(asked.fields, index_names[0])
    differs = index != _numbers(answered.fields, index_names[1])
    count = len(index)
    for codes in topics:
        differs |= codes[:count] != codes[count:]
    same[asked.row[differs]] = False
    if distinct and named.max(initial=0) > 1:
        topic, topic_id = (codes[:count] for codes in topics)
        order = np.lexsort((index, topic_id, topic, asked.row))
        keys = (asked.row, topic, topic_id, index)
        repeats = np.ones(max(count - 1, 0), np.bool_)
        for key in keys:
            repeats &= key[order][1:] == key[order][:-1]
        same[asked.row[order][1:][repeats]] = False
    return same


def _only(flat: _Flat, keep: NDArray[np.bool_]) -> _Flat:
    index = np.flatnonzero(keep)
    columns: Fields = {
        name: Numbers(values.values[index])
        for name, values in flat.fields.items()
        if isinstance(values, Numbers)
    }
    topic = Texts(flat.topic.start[index], flat.topic.length[index])
    return _Flat(flat.row[index], topic, Ids(flat.topic_id.start[index]), columns)


def _topics(
    data: NDArray[np.uint8], asked: _Flat, answered: _Flat
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return codes of the topics' names and ids, of both sides one behind the other."""
    start = np.concatenate([asked.topic.start, answered.topic.start])
    length = np.concatenate([asked.topic.length, answered.topic.length])
    ids = np.concatenate([asked.topic_id.start, answered.topic_id.start])
    return coded(data, start, length)[0], coded(data, ids, _id_length(ids))[0]


def _id_length(start: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(start < 0, -1, _ID_BYTES)


def _parts(
    data: NDArray[np.uint8],
    rows: int,
    flat: _Flat,
    index_name: str,
    records: RecordSets,
    base_offset: Ints,
    high_watermark: Ints,
    error_code: NDArray[np.int64],
) -> Parts:
    topic, names = coded(data, flat.topic.start, flat.topic.length)
    topic_id, ids = coded(data, flat.topic_id.start, _id_length(flat.topic_id.start))
    return Parts(
        _offsets(flat.row, rows),
        topic,
        [_text(name) for name in names],
        topic_id,
        ids,
        _numbers(flat.fields, index_name),
        records,
        base_offset,
        high_watermark,
        error_code,
    )


def _text(raw: bytes) -> str:
    """Return a text as decoders do."""
    return str(raw, "utf-8", "backslashreplace")


def _offsets_told(values: NDArray[np.int64]) -> Ints:
    valid = values != _UNKNOWN_OFFSET
    return Ints(np.where(valid, values, 0), None if valid.all() else valid)


def _nothing(count: int) -> Ints:
    return Ints(np.zeros(count, np.int64), np.zeros(count, np.bool_))


# -- Produce --------------------------------------------------------------------------------------


def _produced(fields: Fields) -> _Flat:
    return _flat(fields, "TopicData", "Name", "PartitionData")


def _acknowledged(fields: Fields) -> _Flat:
    return _flat(fields, "Responses", "Name", "PartitionResponses")


def _is_usual_produce(
    data: NDArray[np.uint8], asked: Fields, answered: Fields
) -> NDArray[np.bool_]:
    rows = len(_numbers(asked, "Acks"))
    return _same_partitions(
        data, rows, _produced(asked), _acknowledged(answered), ("Index", "Index"), distinct=True
    )


def _draft_produce(kept: NDArray[np.int64], exchanges: ExchangeColumns) -> RowDraft:
    data, rows = exchanges.data, len(exchanges)
    asked, answered = _produced(exchanges.asked), _acknowledged(exchanges.answered)
    records = asked.fields["Records"]
    transactional_id = exchanges.asked["TransactionalId"]
    assert isinstance(records, RecordSets)
    assert isinstance(transactional_id, Texts)
    parts = _parts(
        data,
        rows,
        asked,
        "Index",
        records,
        _offsets_told(_numbers(answered.fields, "BaseOffset")),
        _nothing(len(asked.row)),
        _numbers(answered.fields, "ErrorCode"),
    )
    return RowDraft(
        kept,
        exchanges,
        parts,
        _numbers(exchanges.answered, "ThrottleTimeMs"),
        _numbers(exchanges.asked, "Acks"),
        None,
        None,
        _words(data, transactional_id.start, transactional_id.length),
    )


# -- Fetch ----------------------------------------------------------------------------------------


def _asked_for(fields: Fields) -> _Flat:
    return _flat(fields, "Topics", "Topic", "Partitions")


def _fetched(fields: Fields) -> _Flat:
    return _flat(fields, "Responses", "Topic", "Partitions")


def _is_usual_fetch(data: NDArray[np.uint8], asked: Fields, answered: Fields) -> NDArray[np.bool_]:
    is_alone = (_numbers(asked, "SessionId") == 0) & (
        _numbers(asked, "SessionEpoch") == _NO_SESSION_EPOCH
    )
    same = _same_partitions(
        data,
        len(is_alone),
        _asked_for(asked),
        _fetched(answered),
        ("Partition", "PartitionIndex"),
        distinct=False,
    )
    same &= is_alone & (_numbers(answered, "ErrorCode") == 0)
    return same


def _draft_fetch(kept: NDArray[np.int64], exchanges: ExchangeColumns) -> RowDraft:
    data, rows = exchanges.data, len(exchanges)
    answered = _fetched(exchanges.answered)
    records = answered.fields["Records"]
    assert isinstance(records, RecordSets)
    has_batch = records.codec != NO_CODEC
    parts = _parts(
        data,
        rows,
        answered,
        "PartitionIndex",
        records,
        Ints(np.where(has_batch, records.base_offset, 0), None if has_batch.all() else has_batch),
        _offsets_told(_numbers(answered.fields, "HighWatermark")),
        _numbers(answered.fields, "ErrorCode"),
    )
    return RowDraft(
        kept,
        exchanges,
        parts,
        _numbers(exchanges.answered, "ThrottleTimeMs"),
        None,
        _numbers(exchanges.asked, "MaxWaitMs"),
        _numbers(exchanges.asked, "MinBytes"),
        None,
    )


class _Draft(NamedTuple):
    usual: Callable[[NDArray[np.uint8], Fields, Fields], NDArray[np.bool_]]
    make: Callable[[NDArray[np.int64], ExchangeColumns], RowDraft]


_DRAFTS = {
    PRODUCE: _Draft(_is_usual_produce, _draft_produce),
    FETCH: _Draft(_is_usual_fetch, _draft_fetch),
}


# -- from a draft to rows -------------------------------------------------------------------------


def finished_block(
    draft: RowDraft,
    *,
    api_name: str,
    captures: Words,
    request_packet: Ints,
    response_packet: Ints,
    topic: Words,
    topic_id_text: Callable[[bytes], str | None],
    tells_throttle: bool,
    waited: Ints | None,
) -> RowBlock:
    """Return the rows of a draft.

    Args:
        draft: what the exchanges say themselves.
        api_name: name of their API.
        captures: the capture of each row.
        request_packet: number in its capture of each request's packet.
        response_packet: the same of the response.
        topic: name of each partition's topic, as far as it is known.
        topic_id_text: gives the text of a topic id.
        tells_throttle: whether the version tells a throttle time.
        waited: whether each answer was held back; None for what is no fetch.
    """
    each = draft.exchanges
    rows = len(each)
    errors = _errors(draft, topic)
    first = errors.offsets[:-1]
    failed = np.diff(errors.offsets) > 0
    codes = errors.fields["code"]
    assert isinstance(codes, Ints)
    error_code = np.zeros(rows, np.int64)
    error_code[failed] = codes.values[first[failed]]
    columns: dict[str, ColumnValues] = {
        **_peer_columns(each),
        "capture": captures,
        "wire": _same(rows, "kafka"),
        "api_key": _all(rows, each.api_key),
        "api_version": _all(rows, each.api_version),
        "api_name": _same(rows, api_name),
        "correlation_id": Ints(each.correlation_id, None),
        "client_id": _words(each.data, each.client_id_start, each.client_id_length),
        "request_start_ns": Ints(each.request_start_ns, None),
        "request_end_ns": Ints(each.request_end_ns, None),
        "response_start_ns": Ints(each.response_start_ns, None),
        "response_end_ns": Ints(each.response_end_ns, None),
        "latency_ns": Ints(each.response_start_ns - each.request_end_ns, None),
        "total_time_ns": Ints(each.response_end_ns - each.request_start_ns, None),
        "request_bytes": Ints(each.request_bytes, None),
        "response_bytes": Ints(each.response_bytes, None),
        "request_packet": request_packet,
        "response_packet": response_packet,
        "status": Words(failed.astype(np.int32), ["ok", "error"]),
        "error_code": Ints(error_code, None),
        "error_name": _error_names(error_code),
        "errors": errors,
        "throttle_time_ms": Ints(draft.throttle_time_ms, None)
        if tells_throttle
        else _nothing(rows),
        "partitions": _partitions(draft.parts, topic, topic_id_text),
        "record_count": _sums(draft, draft.parts.records.record_count),
        "record_bytes": _sums(draft, draft.parts.records.record_bytes),
        "acks": _given(rows, draft.acks),
        "max_wait_ms": _given(rows, draft.max_wait_ms),
        "min_bytes": _given(rows, draft.min_bytes),
        "waited": _nothing(rows) if waited is None else waited,
        "group_id": _no_word(rows),
        "member_id": _no_word(rows),
        "transactional_id": draft.transactional_id or _no_word(rows),
        "anomalies": Lists(np.zeros(rows + 1, np.int64), {"": _no_word(0)}),
    }
    return RowBlock(rows, columns)


def _errors(draft: RowDraft, topic: Words) -> Lists:
    parts = draft.parts
    at = np.flatnonzero(parts.error_code)
    # How many there are before each partition, and so before each row.
    before = np.searchsorted(at, parts.offsets)
    code = parts.error_code[at]
    fields: dict[str, Ints | Words] = {
        "topic": Words(topic.codes[at], topic.words),
        "partition": Ints(parts.partition[at], None),
        "code": Ints(code, None),
        "name": _error_names(code),
    }
    return Lists(before, fields)


def _error_names(code: NDArray[np.int64]) -> Words:
    # There is one name a code.
    known, codes = np.unique(code, return_inverse=True)
    return Words(codes.astype(np.int32), [error_name(value) for value in known.tolist()])


def _partitions(parts: Parts, topic: Words, topic_id_text: Callable[[bytes], str | None]) -> Lists:
    records = parts.records
    codec = np.where(records.is_null, NO_CODEC, records.codec).astype(np.int32)
    fields: dict[str, Ints | Words] = {
        "topic": topic,
        "topic_id": _recoded(parts.topic_id, [topic_id_text(raw) for raw in parts.topic_ids]),
        "partition": Ints(parts.partition, None),
        "record_count": Ints(records.record_count, None),
        "record_bytes": Ints(records.record_bytes, None),
        "base_offset": parts.base_offset,
        "high_watermark": parts.high_watermark,
        "codec": Words(codec, CODECS),
        "error_code": Ints(parts.error_code, None),
    }
    return Lists(parts.offsets, fields)


def _sums(draft: RowDraft, values: NDArray[np.int64]) -> Ints:
    """Add up by row; null where a produce request has no partition."""
    offsets = draft.parts.offsets
    before = np.concatenate([[0], np.cumsum(values)])
    valid = np.diff(offsets) > 0
    is_known = valid.all() or draft.exchanges.api_key == FETCH
    return Ints(before[offsets[1:]] - before[offsets[:-1]], None if is_known else valid)


def _peer_columns(each: ExchangeColumns) -> dict[str, ColumnValues]:
    peers = each.peers

    def words(values: Sequence[str | None]) -> Words:
        return _recoded(each.peer, values)

    def numbers(values: Sequence[int]) -> Ints:
        return Ints(np.array(values, np.int64)[each.peer], None)

    return {
        "connection": words([f"{one.client}>{one.broker}" for one in peers]),
        "connection_number": numbers([one.tcp.connection_number for one in peers]),
        "client_ip": words([one.client.ip for one in peers]),
        "broker_ip": words([one.broker.ip for one in peers]),
        "client_port": numbers([one.client.port for one in peers]),
        "broker_port": numbers([one.broker.port for one in peers]),
        "client_software_name": words([one.software_name for one in peers]),
        "client_software_version": words([one.software_version for one in peers]),
        "principal": words([one.principal for one in peers]),
    }


def _recoded(index: NDArray[np.integer], values: Sequence[str | None]) -> Words:
    """Return the values that ``index`` names, -1 for null, as words of which no two are alike."""
    known: dict[str, int] = {}
    codes = [-1 if value is None else known.setdefault(value, len(known)) for value in values]
    # The last one is what index -1 finds.
    return Words(np.array([*codes, -1], np.int32)[index], list(known))


def _words(data: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]) -> Words:
    codes, found = coded(data, start, length)
    return _recoded(codes, [_text(raw) for raw in found])


def _same(rows: int, word: str) -> Words:
    return Words(np.zeros(rows, np.int32), [word])


def _no_word(rows: int) -> Words:
    return Words(np.full(rows, -1, np.int32), [])


def _all(rows: int, value: int) -> Ints:
    return Ints(np.full(rows, value, np.int64), None)


def _given(rows: int, values: NDArray[np.int64] | None) -> Ints:
    return _nothing(rows) if values is None else Ints(values, None)
