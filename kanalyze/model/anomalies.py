"""Anomalies: what is wrong with the input, as data.

In: nothing. Out: :class:`AnomalyKind`, :class:`Anomaly`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kanalyze.model.tcp import TcpConnection


class AnomalyKind(enum.StrEnum):
    """Every kind of thing that can be wrong with a capture.

    The value is what reports, rows and tests show; once released it does not change.
    """

    meaning: str
    """For people, in a few words."""

    def __new__(cls, value: str, meaning: str) -> AnomalyKind:
        """Make a member from its value and its meaning."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    # capture
    CAPTURE_TRUNCATED = "capture_truncated", "the file ends within a packet or a block"
    CAPTURE_CORRUPT = (
        "capture_corrupt",
        "a record of the file contradicts itself; reading stopped there",
    )
    ANOTHER_CAPTURE = (
        "another_capture",
        "another capture begins within the file; it is read on, with its packets numbered on",
    )
    CAPTURE_UNREADABLE = (
        "capture_unreadable",
        "not a capture, or unreadable; skipped",
    )
    # net
    UNKNOWN_LINK_TYPE = (
        "unknown_link_type",
        "a packet of a link layer, or in a tunnel, that is not read",
    )
    BAD_IP_HEADER = "bad_ip_header", "a packet cut within its headers, or an IP header in conflict"
    BAD_TCP_HEADER = "bad_tcp_header", "a TCP header that is cut, or in conflict with the packet"
    IP_FRAGMENT = "ip_fragment", "an IP packet of which fragments are missing, or contradict"
    LOST_BYTES = "lost_bytes", "a gap in a stream: bytes that were sent and are not in the capture"
    SNAPPED_BYTES = "snapped_bytes", "bytes that the snap length cut off"
    INCONSISTENT_RETRANSMISSION = (
        "inconsistent_retransmission",
        "retransmission differs from the original; the original is kept",
    )
    REORDER_LIMIT = (
        "reorder_limit",
        "too much held back while waiting for lost segments: the wait was given up",
    )
    CONNECTION_LIMIT = (
        "connection_limit",
        "more open connections than are kept: the one that was silent for longest was closed",
    )
    # connection
    NOT_IN_SYNC = "not_in_sync", "from here on the next frame had to be looked for"
    IMPLAUSIBLE_SIZE = "implausible_size", "a frame size that no broker would accept"
    INCOMPLETE_FRAME = (
        "incomplete_frame",
        "the connection or the capture ended within a frame",
    )
    MISSING_BYTES = "missing_bytes", "a frame has a hole where its decoder had to read"
    MALFORMED_BODY = "malformed_body", "a body that breaks the grammar of its API version"
    WRONG_CRC = (
        "wrong_crc",
        "records whose CRC is not that of their bytes; not every command checks them",
    )
    TRAILING_BYTES = "trailing_bytes", "bytes of a frame left over after its body"
    UNKNOWN_API = "unknown_api", "an API key that is not in the tables"
    UNKNOWN_API_VERSION = (
        "unknown_api_version",
        "a version newer than the tables; decoded with the newest known one only if it fits",
    )
    ORPHAN_RESPONSE = "orphan_response", "a response whose request was not seen"
    UNSOLICITED_RESPONSE = (
        "unsolicited_response",
        "a response to a request that wants none (Produce with acks=0); they are paired",
    )
    UNANSWERED_REQUEST = "unanswered_request", "a request whose response was not seen"
    RESPONSE_BEFORE_REQUEST = (
        "response_before_request",
        "a response captured before its request; they are paired",
    )
    RESPONSE_OUT_OF_ORDER = (
        "response_out_of_order",
        "a response after that of a later request; they are paired by their ids",
    )
    PENDING_LIMIT = (
        "pending_limit",
        "more requests without an answer than are kept: the oldest was given up",
    )
    MEMORY_LIMIT = "memory_limit", "bytes dropped because all that was held took too much memory"
    KEYS_MISSING = (
        "keys_missing",
        "a connection that was decrypted so far, and its secret is not in the key log any more",
    )
    TLS_ON_PLAINTEXT_PORT = (
        "tls_on_plaintext_port",
        "a TLS client on a connection that the broker takes for Kafka",
    )


def kind_of(value: str) -> AnomalyKind:
    """Return the kind with a value; raises ValueError where there is none."""
    return AnomalyKind(value)  # type: ignore[call-arg]


NET_ANOMALIES = frozenset(
    {
        AnomalyKind.UNKNOWN_LINK_TYPE,
        AnomalyKind.BAD_IP_HEADER,
        AnomalyKind.BAD_TCP_HEADER,
        AnomalyKind.IP_FRAGMENT,
        AnomalyKind.LOST_BYTES,
        AnomalyKind.SNAPPED_BYTES,
        AnomalyKind.INCONSISTENT_RETRANSMISSION,
        AnomalyKind.REORDER_LIMIT,
        AnomalyKind.CONNECTION_LIMIT,
    }
)
"""The kinds that the packet layer finds and counts itself."""


class Anomaly(NamedTuple):
    """One thing that was wrong with the input, as data.

    Fields are None where they do not apply or are not known.
    """

    kind: AnomalyKind
    time_ns: int | None = None
    packet: int | None = None
    connection: TcpConnection | None = None
    direction: int | None = None
    """0 or 1, as in :class:`StreamUpdate`."""
    stream_offset: int | None = None
    length: int | None = None
    """Bytes concerned."""
    api_key: int | None = None
    api_version: int | None = None
    field_path: str | None = None
    detail: str = ""
    """A short text for people; never bytes from the wire unless escaped."""
