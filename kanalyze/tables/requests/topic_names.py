"""Names of topics that messages give only an id for (KIP-516).

In: pairs of id and name, as messages or the user tell them. Out: names. This module must not know
which message told a name, nor where a search for one looks.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["NameSearch", "TopicNames", "parse_topic_ids", "topic_id_text"]

NameSearch: TypeAlias = "Callable[[], Iterable[tuple[bytes, str]]]"
"""Gives all ids and names of the whole capture, in its order."""

_MOST_NAMES = 1_000_000
_NO_ID = bytes(16)
_RESERVED = {bytes(15) + b"\1": "__cluster_metadata"}
"""Uuid.METADATA_TOPIC_ID of Kafka: the controllers' log, which no response ever names (KIP-516)."""


def topic_id_text(topic_id: bytes) -> str | None:
    """Return a topic id as Kafka writes it: 22 characters of URL-safe base64; None for zeros."""
    if not topic_id or topic_id == _NO_ID:
        return None
    return base64.urlsafe_b64encode(topic_id)[:22].decode("ascii")


def topic_id_of(text: str) -> bytes:
    """Return the topic id that :func:`topic_id_text` wrote."""
    return base64.urlsafe_b64decode(text + "==")


_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}")
_BASE64 = re.compile(r"[A-Za-z0-9_-]{22}(==)?")


def parse_topic_ids(text: str) -> dict[bytes, str]:
    """Return the names of topic ids as a user writes them down.

    Either a JSON object of ids and names, or a line ``ID NAME`` each (blank lines and those that
    begin with ``#`` do not count). An id is 22 characters of URL-safe base64, as Kafka's tools
    print it, or a UUID in hexadecimal digits, with or without hyphens.

    Raises:
        UsageError: the text is neither, an id is none, or a name is empty.
    """
    pairs = _json_pairs(text) if text.lstrip()[:1] == "{" else _line_pairs(text)
    return {_topic_id(topic_id, where): _named(name, where) for topic_id, name, where in pairs}


def _json_pairs(text: str) -> Iterator[tuple[str, str, str]]:
    import json  # only for who writes them so

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"topic ids are not JSON: {error}") from error
    for topic_id, name in found.items():
        if not isinstance(name, str):
            raise UsageError(f"the name of topic id {topic_id!r} is not a text")
        yield topic_id, name, f"topic id {topic_id!r}"


def _line_pairs(text: str) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"line {number} of the topic ids"
        if len(words) != 2:
            raise UsageError(f"{where}: not an id and a name")
        yield words[0], words[1], where


def _topic_id(text: str, where: str) -> bytes:
    if _UUID.fullmatch(text):
        return bytes.fromhex(text.replace("-", ""))
    if _BASE64.fullmatch(text):
        try:
            return base64.urlsafe_b64decode(text[:22] + "==")
        except binascii.Error as error:
            raise UsageError(f"{where}: {error}") from error
    raise UsageError(f"{where}: {text!r} is neither 22 characters of base64 nor a UUID")


def _named(name: str, where: str) -> str:
    if not name:
        raise UsageError(f"{where}: the name is empty")
    return name


class TopicNames:
    """What topic ids are called; the last name told holds. Bounded: wire data fills it."""

    def __init__(self, search: NameSearch | None = None) -> None:
        """Begin with no names.

        Args:
            search: asked once, when an id without a name is first met: a name that is told later
                in the capture holds for what comes before it.
        """
        self._names: dict[bytes, str] = dict(_RESERVED)
        self._texts: dict[bytes, str | None] = {}
        self._search = search
        self.unnamed: set[bytes] = set()
        """Ids that were asked for while nobody had named them."""
        self.changes = 0
        """How often an id was given another name, or its first one."""

    @property
    def known(self) -> dict[bytes, str]:
        """All names, by id."""
        return dict(self._names)

    def learn(self, topic_id: bytes, name: str) -> None:
        """Take in what a topic is called."""
        if self._names.get(topic_id) == name:
            return
        if len(self._names) < _MOST_NAMES or topic_id in self._names:
            self._names[topic_id] = name
            self.changes += 1

    def name(self, topic: str | None, topic_id: bytes) -> str | None:
        """Return the topic's name: the one given, or the one its id is known by, or None."""
        if topic:
            return topic
        name = self._names.get(topic_id)
        if name is not None or not topic_id or topic_id == _NO_ID:
            return name
        if self._search is not None:
            search, self._search = self._search, None
            # What was told holds, so that it does not matter when the search is made.
            told = frozenset(self._names)
            for found_id, found_name in search():
                if found_id not in told:
                    self.learn(found_id, found_name)
            name = self._names.get(topic_id)
        if name is None and len(self.unnamed) < _MOST_NAMES:
            self.unnamed.add(topic_id)
        return name

    def text(self, topic_id: bytes) -> str | None:
        """Return the id's text, as :func:`topic_id_text`."""
        found = self._texts.get(topic_id)
        if found is None and topic_id not in self._texts:
            found = topic_id_text(topic_id)
            if len(self._texts) < _MOST_NAMES:
                self._texts[topic_id] = found
        return found
