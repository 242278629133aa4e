"""Names of topics that messages give only an id for (KIP-516).

In: pairs of id and name, as responses tell them. Out: names. This module must not know which
message told a name.
"""

from __future__ import annotations

import base64

__all__ = ["TopicNames", "topic_id_text"]

_MOST_NAMES = 1_000_000
_NO_ID = bytes(16)


def topic_id_text(topic_id: bytes) -> str | None:
    """Return a topic id as Kafka writes it: 22 characters of URL-safe base64; None for zeros."""
    if not topic_id or topic_id == _NO_ID:
        return None
    return base64.urlsafe_b64encode(topic_id)[:22].decode("ascii")


class TopicNames:
    """What topic ids are called; the last name told holds. Bounded: wire data fills it."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._texts: dict[bytes, str | None] = {}

    def learn(self, topic_id: bytes, name: str) -> None:
        """Take in what a response calls a topic."""
        if len(self._names) < _MOST_NAMES or topic_id in self._names:
            self._names[topic_id] = name

    def name(self, topic: str | None, topic_id: bytes) -> str | None:
        """Return the topic's name: the one given, or the one its id is known by, or None."""
        return topic or self._names.get(topic_id)

    def text(self, topic_id: bytes) -> str | None:
        """Return the id's text, as :func:`topic_id_text`."""
        found = self._texts.get(topic_id)
        if found is None and topic_id not in self._texts:
            found = topic_id_text(topic_id)
            if len(self._texts) < _MOST_NAMES:
                self._texts[topic_id] = found
        return found
