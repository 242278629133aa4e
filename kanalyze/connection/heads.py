"""The headers of requests, many at a time.

In: frames as columns. Out: :class:`RequestHeads`. This module must not know what answers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kanalyze.connection.frame_columns import read_integers
from kanalyze.connection.reader import API_VERSIONS, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.connection.frame_columns import FrameColumns
    from kanalyze.connection.reader import MessageReader

__all__ = ["CLIENT_ID_AT", "RequestHeads", "after_no_tags", "read_heads"]

CLIENT_ID_AT = 14
"""Index in a request of the client id's first byte, in headers that have one."""
_TELLING = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
"""Requests that tell something of their connection."""


class RequestHeads(NamedTuple):
    """What the headers of all requests say."""

    kinds: list[tuple[int, int]]
    """The (api_key, api_version) that there are."""
    kind: NDArray[np.int64]
    """Index in ``kinds``."""
    is_sound: NDArray[np.bool_]
    """Whether the header could be read, and a response is due."""
    is_telling: NDArray[np.bool_]
    """Whether the request tells something of its connection: software, login."""
    correlation_id: NDArray[np.int64]
    client_id_length: NDArray[np.int64]
    body: NDArray[np.int64]
    """Index in the data of the first byte after the header."""


def read_heads(
    frames: FrameColumns, data: NDArray[np.uint8], reader: MessageReader
) -> RequestHeads:
    """Read the headers of requests, all of which lie in ``data``."""
    if len(data) < CLIENT_ID_AT:
        data = np.zeros(CLIENT_ID_AT, np.uint8)  # no frame has room for a header
    end = np.minimum(frames.held, frames.start + frames.size + 4)
    has_head = end >= frames.start + CLIENT_ID_AT
    at = np.where(has_head, frames.start, 0)
    key, version = read_integers(data, at + 4, ">i2"), read_integers(data, at + 6, ">i2")
    correlation_id = read_integers(data, at + 8, ">i4")
    client_id_length = read_integers(data, at + 12, ">i2")
    body = at + CLIENT_ID_AT + np.maximum(client_id_length, 0)
    is_sound = has_head & (client_id_length >= -1) & (body <= end)
    alike, kind = np.unique(key << 16 | version & 0xFFFF, return_inverse=True)
    kinds = [(value >> 16, (value & 0xFFFF ^ 0x8000) - 0x8000) for value in alike.tolist()]
    for index, (api_key, api_version) in enumerate(kinds):
        header_version = reader.header_versions(api_key, api_version)[0]
        own = kind == index
        if header_version == 0:
            is_sound &= ~own
        elif header_version == 2 and reader.knows(api_key):
            body, is_sound = after_no_tags(data, body, end, is_sound, own)
        if api_key == PRODUCE:
            rows = np.flatnonzero(own & is_sound)
            is_sound[rows] = _wants_answer(data, body[rows], end[rows], api_version)
    is_telling = np.isin(key, _TELLING)
    return RequestHeads(kinds, kind, is_sound, is_telling, correlation_id, client_id_length, body)


def after_no_tags(
    data: NDArray[np.uint8],
    body: NDArray[np.int64],
    end: NDArray[np.int64],
    is_sound: NDArray[np.bool_],
    own: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Step over the tag section that ends a header; sound are those where it is empty."""
    is_empty = data[np.where(is_sound & own & (body < end), body, 0)] == 0
    is_empty &= body < end
    return np.where(own, body + 1, body), is_sound & (is_empty | ~own)


def _wants_answer(
    data: NDArray[np.uint8], body: NDArray[np.int64], end: NDArray[np.int64], version: int
) -> NDArray[np.bool_]:
    """Tell of Produce requests whether they want an answer; of those that do not tell, say no."""
    at = body
    if version >= 3:
        # transactional_id comes first, by its length in a byte (1 more, 0 for null) or two.
        width = 1 if version >= 9 else 2
        inside = body + width <= end
        at = np.where(inside, body, 0)
        if width == 1:
            length = data[at].astype(np.int64)
            inside &= length < 128
            at = at + 1 + np.maximum(length - 1, 0)
        else:
            at = at + 2 + np.maximum(read_integers(data, at, ">i2"), 0)
    else:
        inside = np.ones(len(at), np.bool_)
    inside &= at + 2 <= end
    acks = read_integers(data, np.where(inside, at, 0), ">i2")
    wanted: NDArray[np.bool_] = inside & (acks != 0)
    return wanted
