"""Finds the body after a plain header, which is complete and has no tags, as nearly all have none.

In: a frame, and the version of its header. Out: a position. Other headers are read by
:mod:`kanalyze.kafka.framing.headers`, which this module must not know.
"""

from __future__ import annotations

__all__ = ["plain_body"]


def plain_body(data: bytes, head: bytes, header_version: int) -> int:
    """Return the position of a body in its frame; 0 for any header that is not plain.

    Args:
        data: the frame, with its size prefix.
        head: of a request: its key and version, four bytes; of a response: empty.
        header_version: that of the request, or of the response.
    """
    size = len(data)
    body = 8
    flexible = 1
    if head:
        if size < 14:
            return 0
        for i in range(4):
            if data[4 + i] != head[i]:
                return 0
        if header_version == 0:
            return 12
        length = data[12] * 256 + data[13]
        flexible = 2
        body = 14
        if length < 0x8000:
            body += length
        elif length < 0xFFFF:  # any negative length except null's
            return 0
    if header_version < flexible:
        return body if body <= size else 0
    return body + 1 if body < size and data[body] == 0 else 0
