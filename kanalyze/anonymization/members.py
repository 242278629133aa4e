"""What consumers tell each other through the broker, with stand-ins of names.

In: the content of a field of JoinGroup, SyncGroup or DescribeGroups. Out: content of the same
length. This module must not know where it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.anonymization.tokens import blank

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.anonymization.stand_ins import StandIns

__all__ = ["member_data"]


def member_data(content: bytes, stand_ins: StandIns, *, is_subscription: bool) -> bytes:
    """Return the metadata or the assignment of a member, with stand-ins of topics and rack.

    Both are read as the consumer protocol has them (see
    :mod:`kanalyze.kafka.codec.embedded_protocols`); what does not fit is blanked.
    """
    member = _Member(content, stand_ins)
    if member.read(is_subscription=is_subscription):
        return b"".join(member.pieces)
    return blank(len(content))


class _Member:
    def __init__(self, content: bytes, stand_ins: StandIns) -> None:
        self._content = content
        self._stand_ins = stand_ins
        self._at = 0
        self.pieces: list[bytes] = []

    def read(self, *, is_subscription: bool) -> bool:
        """Return whether the content is of that kind; the parts then are what becomes of it."""
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
        """Read what later versions of a subscription have besides."""
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
        taken_bytes = self._content[self._at : end]
        self._at = end
        return taken_bytes

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
