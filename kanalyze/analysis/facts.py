"""What was found in the bodies of one exchange.

In: nothing. Out: :class:`Facts` and its :class:`Part`. This module must not know how messages are
read, nor what becomes of what was found.

Compiled by Cython, with the types in ``facts.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kanalyze.analysis.sessions import SessionFacts
    from kanalyze.analysis.waits import Delivery

__all__ = ["Facts", "Part", "known_offset", "new_part"]

_UNKNOWN_OFFSET = -1


class Part:
    """One partition or topic in a message.

    Attributes: as in the row contract, the topic id as bytes; but for ``last_offset``, which is of
    the first record batch, where the base offset is hidden in it.
    """

    __slots__ = (
        *("topic", "topic_id", "partition", "record_count", "record_bytes", "base_offset"),
        *("high_watermark", "codec", "error_code", "last_offset"),
    )

    def __init__(
        self,
        topic: str | None,
        topic_id: bytes,
        partition: int | None,
        record_count: int | None = None,
        record_bytes: int | None = None,
        base_offset: int | None = None,
        high_watermark: int | None = None,
        codec: str | None = None,
        error_code: int | None = None,
        last_offset: int | None = None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.record_count = record_count
        self.record_bytes = record_bytes
        self.base_offset = base_offset
        self.high_watermark = high_watermark
        self.codec = codec
        self.error_code = error_code
        self.last_offset = last_offset

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part):
            return NotImplemented
        return self._compared() == other._compared()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Part{self._compared()}"

    def _compared(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in Part.__slots__)


def new_part(topic: str | None, topic_id: bytes, partition: int | None) -> Part:
    """Return a part of which nothing more is known; without the call that makes others."""
    made = Part.__new__(Part)
    made.topic = topic
    made.topic_id = topic_id
    made.partition = partition
    made.record_count = made.record_bytes = made.base_offset = None
    made.high_watermark = made.codec = made.error_code = made.last_offset = None
    return made


class Facts:
    """What was found in the bodies of one exchange; None and empty where nothing was."""

    __slots__ = (
        "acks",
        "delivery",
        "errors",
        "group_id",
        "leads",
        "max_bytes",
        "max_records",
        "max_wait_ms",
        "member_id",
        "min_bytes",
        "names",
        "parts",
        "session",
        "share_epoch",
        "throttle_time_ms",
        "transactional_id",
    )

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.errors: list[tuple[str | None, bytes, int | None, int]] = []
        self.names: list[tuple[bytes, str]] = []
        """Topic ids and the names that the bodies give them."""
        self.session: SessionFacts | None = None
        """Of a fetch in a session, or that may begin or end one."""
        self.delivery: Delivery | None = None
        """Of what may be held back until there is something to tell, once it is answered."""
        self.leads: bool | None = None
        """Whether a SyncGroup brings the assignments of the group."""
        self.throttle_time_ms: int | None = None
        self.acks: int | None = None
        self.max_wait_ms: int | None = None
        self.min_bytes: int | None = None
        self.max_bytes: int | None = None
        self.max_records: int | None = None
        self.share_epoch: int | None = None
        """These three of a ShareFetch."""
        self.group_id: str | None = None
        self.member_id: str | None = None
        self.transactional_id: str | None = None


def known_offset(offset: int | None) -> int | None:
    """Return an offset; None for what stands for none."""
    return None if offset == _UNKNOWN_OFFSET else offset
