"""The most frequent keys of records, by topic, in bounded memory.

In: blocks of records with their keys. Out: :class:`HotKey`.

As long as there are few keys, all are counted. Of more, the rare ones are dropped now and then: the
count of the first that is dropped is taken from all (Misra and Gries). So a count may be too low by
the sum of what was taken, which is at most the number of records divided by :data:`MOST_KEPT`.
"""

# No "from __future__ import annotations": see kanalyze.spec.columns.

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2s
from typing import Annotated, Any, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.spec.columns import Int64, columns_of
from kanalyze.tables.columns.block import Ints, RowBlock, Words

MOST_KEPT: Final = 100_000
_LONGEST_KEY: Final = 256
_TEXTS: Final = ("topic", "topic_id", "api_name", "key", "key_encoding", "problem")


class HotKey(NamedTuple):
    """A key of a topic, with the number of its records."""

    topic: Annotated[str | None, "topic; its id if its name is not known"]
    api_name: Annotated[str, "whether the records were produced or fetched"]
    key: Annotated[str | None, "the key, as key_encoding says; longer ones end in a digest"]
    key_encoding: Annotated[str | None, "as in records"]
    records: Annotated[Int64, "records with this key: at least so many"]
    at_most: Annotated[
        Int64, "records with this key: at most so many; the same if all were counted"
    ]
    of_topic: Annotated[
        Int64, "all records of the topic; at least so many, where at_most differs from records"
    ]


HOT_KEY_COLUMNS: Final = columns_of(HotKey)


class HotKeys:
    """Counts keys."""

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        """Begin without keys; ``most_kept`` are counted at a time, and up to as many more."""
        self._most_kept = most_kept
        self._counts: Counter[tuple[Any, ...]] = Counter()
        self._of_topics: Counter[tuple[Any, ...]] = Counter()
        self._taken = 0

    def add(self, block: RowBlock) -> None:
        """Count the keys of a block of records; rows without a record, and markers, have none."""
        texts = [block.columns[name] for name in _TEXTS]
        is_control = block.columns["is_control"]
        assert isinstance(is_control, Ints)
        codes = [words.codes for words in texts if isinstance(words, Words)]
        words_of = [[*words.words, None] for words in texts if isinstance(words, Words)]
        # Equal records are counted as numbers, which takes a third of the time of texts.
        for (*numbers, control), count in Counter(
            zip(*codes, is_control.values, strict=True)
        ).items():
            name, topic_id, api, key, encoding, problem = (
                words[code] for words, code in zip(words_of, numbers, strict=True)
            )
            if problem is None and not control:
                topic = name or topic_id, api
                self._counts[*topic, _short(key), encoding] += count
                self._of_topics[topic] += count
        if len(self._counts) > 2 * self._most_kept:
            self._drop()

    def _drop(self) -> None:
        taken = sorted(self._counts.values(), reverse=True)[self._most_kept]
        self._taken += taken
        left = {key: count - taken for key, count in self._counts.items() if count > taken}
        self._counts = Counter(left)
        # A topic without such keys may come back: then it is counted from there on.
        topics = {key[:2] for key in left}
        self._of_topics = Counter(
            {topic: count for topic, count in self._of_topics.items() if topic in topics}
        )

    def most(self, count: int) -> Iterator[HotKey]:
        """Yield the keys of each topic with most records, at most ``count`` of each topic."""
        shown: Counter[tuple[Any, ...]] = Counter()
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], list(map(str, item[0]))))
        topics = sorted(self._of_topics, key=lambda topic: (-self._of_topics[topic], str(topic)))
        by_topic: dict[tuple[Any, ...], list[HotKey]] = {topic: [] for topic in topics}
        for (name, api, key, encoding), records in ordered:
            topic = name, api
            if shown[topic] < count:
                shown[topic] += 1
                counts = records, records + self._taken, self._of_topics[topic]
                by_topic[topic].append(HotKey(name, api, key, encoding, *counts))
        for lines in by_topic.values():
            yield from lines


def _short(key: str | None) -> str | None:
    """Return a key of bounded length; a digest tells long ones apart."""
    if key is None or len(key) <= _LONGEST_KEY:
        return key
    digest = blake2s(key.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
    return f"{key[:_LONGEST_KEY]}~{digest}"
