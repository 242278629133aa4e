"""Frames that lie in pieces, some of them missing."""

from __future__ import annotations

from kanalyze.kafka.wire import MissingBytes, Truncated


class PiecesSource:
    """A frame of which the capture has some ranges, each in a buffer of its own."""

    def __init__(self, frame: bytes, *held: tuple[int, int]) -> None:
        """``held`` are the captured ranges, ends not included, in order."""
        self._length = len(frame)
        self._pieces = [(start, memoryview(frame[start:end])) for start, end in held]
        self.windows: list[int] = []
        """Positions that were requested."""

    @property
    def length(self) -> int:
        return self._length

    def window(self, at: int) -> memoryview:
        self.windows.append(at)
        if at > self._length:
            raise Truncated("beyond the frame")
        if at == self._length:
            return memoryview(b"")
        for start, piece in self._pieces:
            if start <= at < start + len(piece):
                return piece[at - start :]
        raise MissingBytes(f"byte {at} is not there")

    def read(self, at: int, length: int) -> memoryview:
        if at + length > self._length:
            raise Truncated("beyond the frame")
        found = b""
        while len(found) < length:
            found += self.window(at + len(found))
        return memoryview(found[:length])
