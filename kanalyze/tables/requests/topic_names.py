"""Names of topics by their ids (KIP-516), because many messages have only the id.

In: pairs of id and name, from messages or the user. Out: names.

A :class:`NameReader` reads nothing else from messages. It replaces
:class:`~kanalyze.tables.requests.extract.Extractors` when a capture is searched for names.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.decoding.values import uuid_text
from kanalyze.errors import UsageError
from kanalyze.kafka.codec.compiler import Projection
from kanalyze.kafka.codec.values import NO_UUID
from kanalyze.tables.columns.block import Lists, Words
from kanalyze.tables.requests.field_selection import field_roles, projection_of
from kanalyze.tables.requests.summaries import BodyWalk, ExchangeSummary
from kanalyze.tables.requests.topics import METADATA_TOPIC, METADATA_TOPIC_ID, TopicTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.kafka.codec.values import EncodedFields
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.decode_plans import MessageKind
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.tables.columns.block import RowBlock

NameSearch: TypeAlias = "Callable[[], Iterable[tuple[bytes, str]]]"
"""A function that yields all ids and names in the whole capture, in order."""

_MAX_NAMES = 1_000_000
_RESERVED = {METADATA_TOPIC_ID: METADATA_TOPIC}
"""Kafka's Uuid.METADATA_TOPIC_ID: the controllers' log, which no response names (KIP-516)."""


def topic_id_text(topic_id: bytes) -> str | None:
    """Return a topic id as 22 characters of URL-safe base64, like Kafka; None for zeros."""
    if not topic_id or topic_id == NO_UUID:
        return None
    return uuid_text(topic_id)


def topic_id_of(text: str) -> bytes:
    """Return the topic id for a text of :func:`topic_id_text`."""
    return base64.urlsafe_b64decode(text + "==")


_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}"
_BASE64 = r"[A-Za-z0-9_-]{22}(==)?"


def parse_topic_ids(text: str) -> dict[bytes, str]:
    """Parse a user's list of topic ids and names.

    It is either a JSON object ``{id: name}``, or lines ``ID NAME`` (blank lines and lines that
    begin with ``#`` are skipped). An id is 22 characters of URL-safe base64, as Kafka's tools print
    it, or a UUID in hexadecimal digits, with or without hyphens.

    Raises:
        UsageError: the text has neither form, an id is invalid, or a name is empty.
    """
    pairs = _json_pairs(text) if text.lstrip()[:1] == "{" else _line_pairs(text)
    return {
        _topic_id(topic_id, where): _checked_name(name, where) for topic_id, name, where in pairs
    }


def _json_pairs(text: str) -> Iterator[tuple[str, str, str]]:
    import json  # imported late: only needed for this form

    try:
        names_by_id = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"topic ids: invalid JSON: {error}") from error
    for topic_id, name in names_by_id.items():
        if not isinstance(name, str):
            raise UsageError(f"topic ids: the name of {topic_id!r} is not a text")
        yield topic_id, name, f"topic id {topic_id!r}"


def _line_pairs(text: str) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"line {number} of the topic ids"
        if len(words) != 2:
            raise UsageError(f"{where}: expected an id and a name")
        yield words[0], words[1], where


def _topic_id(text: str, where: str) -> bytes:
    if re.fullmatch(_UUID, text):
        return bytes.fromhex(text.replace("-", ""))
    if re.fullmatch(_BASE64, text):
        try:
            return base64.urlsafe_b64decode(text[:22] + "==")
        except binascii.Error as error:
            raise UsageError(f"{where}: {error}") from error
    raise UsageError(f"{where}: {text!r} is neither 22 characters of base64 nor a UUID")


def _checked_name(name: str, where: str) -> str:
    if not name:
        raise UsageError(f"{where}: the name is empty")
    return name


class TopicNames:
    """Names of topics by id; the latest name counts. Bounded, because names come from the wire."""

    def __init__(self, search: NameSearch | None = None) -> None:
        """Begin without names.

        Args:
            search: called once, when an id without a name is first looked up. So a name that comes
                later in the capture also applies to earlier rows.
        """
        self._names: dict[bytes, str] = dict(_RESERVED)
        self._texts: dict[bytes, str | None] = {}
        self._ids: dict[str, bytes] = {}
        """Topic ids by their texts, because decoding one takes longer than a lookup."""
        self._search = search
        self.unnamed: set[bytes] = set()
        """Ids that were looked up while they had no name."""
        self._shown: set[bytes] | None = None
        """Those of them in the rows that a filter passes; None if there is no filter."""
        self.changes = 0
        """Number of times that an id got a name or another name."""

    @property
    def known(self) -> dict[bytes, str]:
        """All names, by id."""
        return dict(self._names)

    @property
    def never_named(self) -> int:
        """Number of ids in rows without a name that nothing so far has named."""
        return sum(topic_id not in self._names for topic_id in self._lacking_names())

    @property
    def named_late(self) -> int:
        """Number of ids that got their name after they were looked up: earlier rows lack it."""
        return len(self._lacking_names()) - self.never_named

    def _lacking_names(self) -> set[bytes]:
        return self.unnamed if self._shown is None else self._shown

    def note_shown(self, rows: RowBlock) -> None:
        """Count only ids in the rows of requests that are noted, and in lines that come of them."""
        self._shown = self._shown or set()
        if not self.unnamed:
            return
        partitions = rows.columns["partitions"]
        assert isinstance(partitions, Lists)
        topics, ids = partitions.fields["topic"], partitions.fields["topic_id"]
        assert isinstance(topics, Words)
        assert isinstance(ids, Words)
        pairs = set(zip(topics.codes, ids.codes, strict=True))
        shown = {topic_id_of(ids.words[item]) for topic, item in pairs if topic < 0 <= item}
        self._shown |= shown & self.unnamed

    def learn(self, topic_id: bytes, name: str) -> None:
        """Note the name of a topic. Kafka's reserved ids keep their names."""
        if self._names.get(topic_id) == name or topic_id in _RESERVED:
            return
        if len(self._names) < _MAX_NAMES or topic_id in self._names:
            self._names[topic_id] = name
            self.changes += 1

    def name(self, topic: str | None, topic_id: bytes) -> str | None:
        """Return the topic's name: ``topic`` if given, else the name known for the id, or None."""
        if topic:
            return topic
        name = self._names.get(topic_id)
        if name is not None or not topic_id or topic_id == NO_UUID:
            return name
        if self._search is not None:
            search, self._search = self._search, None
            # Names that are known already take precedence, so that the result does not depend
            # on the time of the search.
            ids_before = frozenset(self._names)
            for other_id, other_name in search():
                if other_id not in ids_before:
                    self.learn(other_id, other_name)
            name = self._names.get(topic_id)
        if name is None and len(self.unnamed) < _MAX_NAMES:
            self.unnamed.add(topic_id)
        return name

    def name_of_text(self, topic_id: str) -> str | None:
        """Return the name for the text of a topic id; None if it is not known."""
        id_bytes = self._ids.get(topic_id)
        if id_bytes is None:
            id_bytes = topic_id_of(topic_id)
            if len(self._ids) < _MAX_NAMES:
                self._ids[topic_id] = id_bytes
        name = self.name(None, id_bytes)
        if self._shown is not None and id_bytes in self.unnamed:
            self._shown.add(id_bytes)
        return name

    def text(self, topic_id: bytes) -> str | None:
        """Return the id as text; see :func:`topic_id_text`."""
        text = self._texts.get(topic_id)
        if text is None and topic_id not in self._texts:
            text = topic_id_text(topic_id)
            if len(self._texts) < _MAX_NAMES:
                self._texts[topic_id] = text
        return text


_NOTHING = Projection.of()


class NameReader:
    """Finds topic names in requests and responses that have both the name and the id."""

    def __init__(self, catalog: Catalog) -> None:
        """Make a reader; the definitions of an API are read when it is first needed."""
        self._catalog = catalog
        self._topics = TopicTable()
        # Of the message that is read.
        self._summary = ExchangeSummary(self._topics)
        self._partitions = self._summary.partitions
        self._walks: dict[tuple[int, str], BodyWalk | None] = {}

    def needed_fields(self, api_key: int, kind: MessageKind) -> Projection:
        """Return the fields to decode; none for most messages, which have no names."""
        if self._walk(api_key, kind) is None:
            return _NOTHING
        return projection_of(self._catalog.message(api_key, kind))

    def names(self, exchange: Exchange) -> list[tuple[bytes, str]]:
        """Return the topic ids and names in an exchange, in wire order."""
        names: list[tuple[bytes, str]] = []
        if exchange.api_key is not None and exchange.wire == "kafka":
            request, response = exchange.request, exchange.response
            names += self._names_in(
                exchange.api_key, "request", request.encoded_fields if request else None
            )
            names += self._names_in(
                exchange.api_key, "response", response.encoded_fields if response else None
            )
        return names

    def _names_in(
        self, api_key: int, kind: MessageKind, encoded: EncodedFields | None
    ) -> list[tuple[bytes, str]]:
        walk = None if encoded is None else self._walk(api_key, kind)
        if walk is None or encoded is None:
            return []
        if self._topics.is_full:
            self._topics.clear()
        self._partitions.clear()
        self._summary.clear(self._partitions)
        walk.read(encoded, self._summary, self._partitions, self._partitions)
        return self._summary.names

    def _walk(self, api_key: int, kind: MessageKind) -> BodyWalk | None:
        if self._catalog.api(api_key) is None:
            return None
        key = (api_key, kind)
        if key not in self._walks:
            message = self._catalog.message(api_key, kind)
            level = field_roles(message, projection_of(message))
            walk = BodyWalk(level, self._topics, is_request=kind == "request")
            self._walks[key] = walk if level.finds_names else None
        return self._walks[key]
