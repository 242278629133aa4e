"""Anonymizes what group members exchange through the broker: subscriptions and assignments.

In: the content of a field of JoinGroup, SyncGroup or DescribeGroups. Out: content of the same
length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.anonymization.tokens import blank

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.anonymization.stand_ins import StandIns

__all__ = ["member_data"]


def member_data(content: bytes, stand_ins: StandIns, *, is_subscription: bool) -> bytes:
    """Return the subscription or the assignment of a member, with stand-ins for topics and rack.

    Both are parsed in the format of the consumer protocol (see
    :mod:`kanalyze.kafka.codec.embedded_protocols`). Content in any other format is blanked.
    """
    member = _Member(content, stand_ins)
    if member.read(is_subscription=is_subscription):
        return b"".join(member.pieces)
    return blank(len(content))


class _Member:
    """Parses a subscription or an assignment into ``pieces`` of the anonymized content."""

    def __init__(self, content: bytes, stand_ins: StandIns) -> None:
        self._content = content
        self._stand_ins = stand_ins
        self._at = 0
        self.pieces: list[bytes] = []

    def read(self, *, is_subscription: bool) -> bool:
        """Parse the content; return whether it has the expected format."""
        try:
            version = self._number(2)
            if version < 0:
                return False
            if is_subscription:
                self._each(self._name)
            else:
                self._each(self._partitions)
            self._user_data()
            if is_subscription:
                self._newer(version)
        except IndexError:
            return False
        if self._at == len(self._content):
            return True
        if version <= 3:
            return False
        self.pieces.append(bytes(len(self._content) - self._at))
        return True

    def _newer(self, version: int) -> None:
        """Read the fields that versions 1 to 3 added to a subscription."""
        if version >= 1:
            self._each(self._partitions)
        if version >= 2:
            self._number(4)
        if version >= 3:
            self._name()

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._content):
            raise IndexError
        piece = self._content[self._at : end]
        self._at = end
        return piece

    def _number(self, size: int) -> int:
        number_bytes = self._take(size)
        self.pieces.append(number_bytes)
        return int.from_bytes(number_bytes, signed=True)

    def _each(self, read: Callable[[], None]) -> None:
        count = self._number(4)
        if not 0 <= count <= len(self._content):
            raise IndexError
        for _ in range(count):
            read()

    def _name(self) -> None:
        size = self._number(2)
        if size >= 0:
            self.pieces.append(self._stand_ins.name(self._take(size)))

    def _partitions(self) -> None:
        self._name()
        count = self._number(4)
        if count < 0:
            raise IndexError
        self.pieces.append(self._take(4 * count))

    def _user_data(self) -> None:
        size = self._number(4)
        if size > 0:
            self.pieces.append(blank(len(self._take(size))))
